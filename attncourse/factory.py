"""Every attention of the course by its name: `get_attention`, for programs that read the choice from a configuration.

The names are those of the field. Where a choice is made in code, the classes say more than a name can.
"""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

from torch import nn

from attncourse.layers import MultiHeadAttention
from attncourse.shared_heads import GroupedQueryAttention, MultiQueryAttention
from attncourse.variants.bigbird import BigBirdAttention
from attncourse.variants.delta import DeltaAttention, GatedDeltaAttention
from attncourse.variants.differential import DifferentialAttention
from attncourse.variants.dilated import DilatedAttention
from attncourse.variants.disentangled import DisentangledAttention
from attncourse.variants.document_bias import DocumentBiasAttention
from attncourse.variants.gated import GatedLinearAttention
from attncourse.variants.latent import LatentAttention
from attncourse.variants.linear import LinearAttention
from attncourse.variants.longformer import LongformerAttention
from attncourse.variants.multi_token import MultiTokenAttention
from attncourse.variants.rolling import RollingKVCache  # noqa: F401 (says how a window decodes)
from attncourse.variants.sinks import GatedAttention, SinkAttention
from attncourse.variants.talking_heads import TalkingHeadsAttention
from attncourse.variants.window import SlidingWindowAttention

# Why some cannot be causal.
BOTH_WAYS = "its global tokens read the whole sequence and are read by all"


class AttentionType(NamedTuple):
    """One row of `ATTENTION_TYPES`.

    Args:
        make: called as ``make(embed_dim, num_heads, **options)``.
        options: the names that it takes.
        needs: those that have no default.
        always_causal: no position reads a later one, whatever is asked.
        never_causal: why it cannot be causal; empty if it can.
    """

    make: Callable[..., nn.Module]
    options: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    always_causal: bool = False
    never_causal: str = ""


def _latent(embed_dim: int, num_heads: int, **options) -> LatentAttention:
    """Widths in the proportions of deepseek2024: a latent of four heads, half a head with positions."""
    head_dim = options.pop("head_dim", embed_dim // num_heads)
    sizes = {"latent_dim": 4 * head_dim, "rotary_dim": max(2, head_dim // 4 * 2)}
    return LatentAttention(embed_dim, num_heads, head_dim, **sizes | options)


PROJECTIONS = ("bias", "init")
STANDARD = (*PROJECTIONS, "dropout")
SHARED = (*STANDARD, "num_kv_heads")
STATE = ("chunk", "num_qk_heads", "conv_size", "gate")
ATTENTION_TYPES = {
    "mha": AttentionType(MultiHeadAttention, STANDARD),
    "mqa": AttentionType(MultiQueryAttention, STANDARD),
    "gqa": AttentionType(GroupedQueryAttention, (*STANDARD, "num_kv_heads"), ("num_kv_heads",)),
    "mla": AttentionType(
        _latent,
        ("head_dim", "latent_dim", "rotary_dim", "query_latent_dim", "dropout"),
        always_causal=True,
    ),
    "sliding_window": AttentionType(
        SlidingWindowAttention, ("window_size", *SHARED), ("window_size",)
    ),
    "dilated": AttentionType(DilatedAttention, ("window_size", "step", *SHARED), ("window_size",)),
    "longformer": AttentionType(
        partial(LongformerAttention, num_global=1),  # the first token, unless the call says which
        ("window_size", "num_global", "bias", "dropout"),
        ("window_size",),
        never_causal=BOTH_WAYS,
    ),
    "bigbird": AttentionType(
        BigBirdAttention,
        ("block_size", "num_random", "seed", "bias", "dropout"),
        ("block_size",),
        never_causal=BOTH_WAYS,
    ),
    "sinks": AttentionType(SinkAttention, ("learned", *SHARED)),
    "gated": AttentionType(GatedAttention, SHARED),
    "disentangled": AttentionType(
        DisentangledAttention,
        (
            "span",
            "terms",
            "content",
            "furthest",
            "share_proj",
            "p2c",
            "positions",
            "bias",
            "dropout",
        ),
        ("span",),
    ),
    "document_bias": AttentionType(DocumentBiasAttention, ("span", *STANDARD), ("span",)),
    "multi_token": AttentionType(
        MultiTokenAttention,
        ("kernel_size", "after", "mix_heads", "norm", "layer", *SHARED),
        always_causal=True,
    ),
    "talking_heads": AttentionType(TalkingHeadsAttention, SHARED),
    "differential": AttentionType(DifferentialAttention, ("layer", *SHARED)),
    "linear": AttentionType(
        LinearAttention, ("feature_map", "normalize", "chunk", "num_kv_heads", *PROJECTIONS)
    ),
    "gated_linear": AttentionType(
        GatedLinearAttention, ("per_channel", *STATE), always_causal=True
    ),
    "delta": AttentionType(DeltaAttention, STATE, always_causal=True),
    "gated_delta": AttentionType(GatedDeltaAttention, ("per_channel", *STATE), always_causal=True),
}


def get_attention(
    attention_type: str,
    embed_dim: int,
    num_heads: int,
    *,
    num_groups: int | None = None,
    apply_causal_mask: bool = False,
    **options,
) -> nn.Module:
    """The attention of this name as a layer that is called on one sequence, ``layer(x)``.

    Args:
        attention_type: a name in `ATTENTION_TYPES`.
        embed_dim: width of the input (batch, seq, embed_dim) and of the output.
        num_heads: query heads.
        num_groups: key/value heads of ``"gqa"``, which needs it; the others do not look at it, so that one
            configuration serves them all.
        apply_causal_mask: ``True``: in ``layer(x)`` no position reads a later one. ``False`` leaves the layer as
            it is, and those that read a state in order, as ``"mla"`` and ``"gated_delta"``, are causal anyway:
            ``ATTENTION_TYPES[name].always_causal``.
        options: of the layer's class, such as ``window_size``; ``ATTENTION_TYPES[name].options`` has their names.

    Returns: an instance of the layer's own class. What else its ``forward`` takes can be passed in the call.

    Raises:
        ValueError: no such name, or one that cannot be causal. TypeError: an option that the layer does not
            know, or one that it needs and did not get.

    Reduces to: the layer's class.
    Chapter: 20_choosing.
    """
    if attention_type not in ATTENTION_TYPES:
        raise ValueError(_unknown(attention_type))
    kind = ATTENTION_TYPES[attention_type]
    if attention_type == "gqa" and num_groups is not None:
        if "num_kv_heads" in options:
            raise TypeError("num_groups and num_kv_heads are two names of one number; pass one")
        options["num_kv_heads"] = num_groups
    _check_options(attention_type, kind, options)
    if apply_causal_mask and kind.never_causal:
        raise ValueError(
            f'"{attention_type}" cannot be causal: {kind.never_causal}. Leave out apply_causal_mask, or use '
            f'"sliding_window" for a causal layer that reads few keys'
        )
    layer = kind.make(embed_dim, num_heads, **options)
    if apply_causal_mask and not kind.always_causal:
        layer.register_forward_pre_hook(_is_causal, with_kwargs=True)
    return layer


def _unknown(name: str) -> str:
    names = ", ".join(f'"{x}"' for x in ATTENTION_TYPES)
    near = get_close_matches(str(name).lower(), ATTENTION_TYPES, n=1)
    meant = f'. Did you mean "{near[0]}"?' if near else ""
    return f"attention_type must be one of {names}; got {name!r}{meant}"


def _check_options(name: str, kind: AttentionType, options: dict) -> None:
    """Refuse what the layer does not know, and miss what it needs, by name."""
    unknown = [x for x in options if x not in kind.options]
    if unknown:
        raise TypeError(
            f'"{name}" does not know {", ".join(unknown)}; its options are {", ".join(kind.options)}'
        )
    missing = [x for x in kind.needs if x not in options]
    if missing:
        wanted = "num_groups" if name == "gqa" else ", ".join(missing)
        raise TypeError(
            f'"{name}" needs {wanted}, which has no default; pass it, as in '
            f'get_attention("{name}", embed_dim, num_heads, {wanted}=2)'
        )


# Called before the forward of a layer: what a call says itself comes second, and wins.
def _is_causal(layer: nn.Module, args: tuple, options: dict) -> tuple[tuple, dict]:
    return args, {"is_causal": True} | options
