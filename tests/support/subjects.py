"""The functions and layers whose edges are tried, and the copy of the package that they come from."""

import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn


def ours() -> list[str]:
    return [x for x in sys.modules if x.partition(".")[0] == "attncourse"]


@contextmanager
def known_as(modules: dict):
    """The names of the package mean these modules; a compiler looks modules up by their names."""
    before = {name: sys.modules.pop(name) for name in ours()}
    sys.modules.update(modules)
    yield
    for name in ours():
        del sys.modules[name]
    sys.modules.update(before)


# A second copy of the package, without the run-time check of shapes that only tests have: a compiler would have to
# follow that as well.
with known_as({}):
    from attncourse import steps
    from attncourse.cache import cached_attention
    from attncourse.factory import ATTENTION_TYPES, get_attention
    from attncourse.scores import alibi
    from attncourse.variants.bigbird import bigbird_attention, bigbird_plan
    from attncourse.variants.delta import delta_rule
    from attncourse.variants.differential import differential_attention
    from attncourse.variants.disentangled import disentangled_attention
    from attncourse.variants.flash import flash_attention
    from attncourse.variants.gated import gated_linear_attention
    from attncourse.variants.linear import linear_attention
    from attncourse.variants.longformer import longformer_attention
    from attncourse.variants.multi_token import identity_kernel, multi_token_attention
    from attncourse.variants.sinks import sink_attention
    from attncourse.variants.streaming import streaming_attention
    from attncourse.variants.talking_heads import talking_heads_attention
    from attncourse.variants.window import sliding_window_attention

    UNCHECKED = {name: sys.modules[name] for name in ours()}

B, H, D, WIDTH, N = 2, 4, 8, 16, 12


class Subject(NamedTuple):
    """Something that attends.

    Args:
        call: a module; given the inputs, its output.
        inputs: makes them for a length, in float64; those with a length in the axis before the last come first.
        cross: query and key may differ in length.
        by_layer: it is traced as part of a layer of this name, and not once more.
    """

    call: nn.Module
    inputs: Callable[[int], list[Tensor]]
    cross: bool = False
    by_layer: str = ""


class Function(nn.Module):
    """A function as a module, so that everything that takes a module takes it."""

    def __init__(self, function, *constants: Tensor, **options):
        super().__init__()
        self.function, self.options = function, options
        for k, x in enumerate(constants):
            self.register_buffer(f"constant{k}", x)

    def forward(self, *inputs):
        output = self.function(*inputs, *self.buffers(), **self.options)
        return output[0] if isinstance(output, tuple) else output


def qkv(n: int, heads=H, kv_heads=H) -> list[Tensor]:
    generator = torch.Generator().manual_seed(n)
    shapes = ((B, heads, n, D), (B, kv_heads, n, D), (B, kv_heads, n, D))
    return [torch.randn(x, generator=generator, dtype=torch.float64) for x in shapes]


def with_gates(n: int, channels: bool = False) -> list[Tensor]:
    q, k, v = qkv(n)
    decay = -torch.rand(k.shape if channels else k.shape[:3], dtype=torch.float64)
    return [q, k / k.norm(dim=-1, keepdim=True), v, decay]


def with_beta(n: int) -> list[Tensor]:
    q, k, v, decay = with_gates(n)
    return [q, k, v, torch.rand(decay.shape, dtype=torch.float64), decay]


def delta(q, k, v, beta, decay):
    return delta_rule(q, k, v, beta, log_decay=decay)


def longformer(q, k, v, tokens):
    return longformer_attention(q, k, v, tokens < 1, (4, 4))


def functions() -> dict[str, Subject]:
    """Name -> Subject; every function of queries, keys and values."""
    eye, tables = torch.eye(H).double(), torch.ones(H, 10, D).double()
    sink, kernel = torch.zeros(H).double(), identity_kernel(H, (2, 3)).double() + 0.1
    pairs = partial(qkv, heads=2 * H, kv_heads=2 * H)
    return {
        "scaled_dot_product_attention": Subject(Function(steps.scaled_dot_product_attention), qkv, True),
        "attention, alibi": Subject(Function(steps.attention, score_mod=alibi(H)), qkv, True),
        "cached_attention": Subject(Function(cached_attention), partial(qkv, kv_heads=2)),
        "flash_attention": Subject(Function(flash_attention, is_causal=True), qkv, True),
        "sliding_window_attention": Subject(Function(sliding_window_attention, window_size=(4, 0)), qkv, True, "sliding_window"),
        "longformer_attention": Subject(Function(longformer), lambda n: [*qkv(n), torch.arange(n).expand(B, -1)], False, "longformer"),
        "bigbird_attention": Subject(Function(bigbird), qkv, False, "bigbird"),
        "sink_attention": Subject(Function(sink_attention, sink, is_causal=True), qkv, True, "sinks"),
        "streaming_attention": Subject(Function(streaming_attention, num_sinks=2, window=4), qkv),
        "disentangled_attention": Subject(Function(disentangled_attention, tables, tables), qkv, True, "disentangled"),
        "multi_token_attention": Subject(Function(multi_token_attention, kernel), qkv, True, "multi_token"),
        "talking_heads_attention": Subject(Function(talking_heads_attention, eye + 0.1, eye), qkv, True, "talking_heads"),
        "differential_attention": Subject(Function(halves), lambda n: [*pairs(n)[:2], qkv(n)[2]], True, "differential"),
        "linear_attention": Subject(Function(linear_attention), qkv, True),
        "linear_attention, causal": Subject(Function(linear_attention, is_causal=True), qkv, False, "linear"),
        "gated_linear_attention": Subject(Function(gated_linear_attention), with_gates),
        "gated_linear_attention, channels": Subject(Function(gated_linear_attention), partial(with_gates, channels=True), False, "gated_linear"),
        "delta_rule": Subject(Function(delta), with_beta, False, "gated_delta"),
    }  # fmt: skip


def halves(query, key, value):
    return differential_attention(query, key, value, 0.5)


def bigbird(query, key, value):
    return bigbird_attention(query, key, value, bigbird_plan(max(query.size(2) // 3, 1), 0, H), 3)


def layer(name: str) -> Subject:
    """A layer by its name in the factory; causal if it can be."""
    torch.manual_seed(0)
    kind = ATTENTION_TYPES[name]
    options = {"num_kv_heads": 2, "window_size": 4, "block_size": 3, "span": 5}
    needed = {key: options[key] for key in kind.needs}
    made = get_attention(name, WIDTH, H, apply_causal_mask=not kind.never_causal, **needed)
    return Subject(
        made.double().eval(),
        lambda n: [qkv(n)[0].transpose(1, 2).flatten(2)[..., :WIDTH].contiguous()],
    )


def subjects() -> dict[str, Callable[[], Subject]]:
    """Name -> what makes it anew."""
    made = {name: partial(lambda name: functions()[name], name) for name in functions()}
    return made | {f'"{name}"': partial(layer, name) for name in ATTENTION_TYPES}
