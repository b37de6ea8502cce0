"""Linear attention: features take the place of the exponential, and all that was read fits into one table."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.decoding import decodes
from attncourse.interface import check_sequences, key_mask, refuse
from attncourse.layers import MultiHeadAttention
from attncourse.precision import sums_in_float32
from attncourse.steps import mix, repeat_heads
from attncourse.variants.chunks import blocks, causal_sums, written
from attncourse.variants.features import (
    FeatureMap,
    elu_plus_one,
    features_of,
    paired_features,
)
from attncourse.variants.features import RandomFeatures as RandomFeatures  # and from here, too
from attncourse.variants.features import random_features as random_features
from attncourse.variants.gated import decay_between, gated_linear_attention, padding
from attncourse.variants.state_cache import LinearCache, decode_with_state


@sums_in_float32
def linear_weights(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    *,
    is_causal: bool = False,
    feature_map: FeatureMap = elu_plus_one,
    normalize: bool = True,
    key_mask: Bool[Tensor, "b *h m"] | None = None,
) -> Float[Tensor, "b h n m"]:
    """The table of weights that `linear_attention` never makes.

        weight(i, j) = f(query(i)) . f(key(j)) / sum_k f(query(i)) . f(key(k))

    Args: as in `linear_attention`.

    Cost: 2 n m f FLOPs per head and n m numbers of memory, as with a softmax.
    Chapter: 18_linear.
    """
    key = repeat_heads(key, query.size(1))
    options = {"scaled": normalize, "is_causal": is_causal}
    queries, keys, fading = paired_features(
        feature_map, query, key, padding(key_mask, key), **options
    )
    weights = queries @ keys.mT
    if is_causal:
        weights = weights.tril()
    if fading is not None:
        weights = weights * decay_between(fading.cumsum(-1)[..., None])[..., 0]
    return _divide(weights, weights.sum(dim=-1, keepdim=True)) if normalize else weights


@sums_in_float32
def linear_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    *,
    is_causal: bool = False,
    feature_map: FeatureMap = elu_plus_one,
    normalize: bool = True,
    key_mask: Bool[Tensor, "b *h m"] | None = None,
    state: Float[Tensor, "b h f w"] | None = None,
    return_state: bool = False,
    chunk: int = 64,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention whose weights are products of features, so that the keys can meet the values first.

        state     = sum_j f(key(j)) [value(j), 1]^T
        output(i) = f(query(i)) state,   the first numbers divided by the last one

    The 1 beside each value counts: what it becomes is the sum of the weights. A causal query has a state of
    its own, the sum over j <= i: `attncourse.variants.chunks.causal_sums`.

    Args:
        query, key, value: query head h reads KV head h // (h / g). There is no 1 / sqrt(d).
        is_causal: query i reads keys 0..i.
        feature_map: applied to queries and keys; (b, h, n, d) to (b, h, n, f), each token's of it alone: a long text
            comes in blocks. One with ``log_features``, as
            `RandomFeatures`, is scaled by `paired_features` if it is normalized and no state comes or goes.
        normalize: divide by the sum of the weights, which should then be positive; where it is 0, so is the
            output. ``False`` leaves out the 1.
        key_mask: ``False`` where a key is padding, (b, m) or (b, h, m): its features count as 0.
        state: of what was read before, from ``return_state``; (b, h, f, e + 1), or (b, h, f, e) not normalized.
        return_state: return (output, state), the state with these keys in it, in float32 at least.
        chunk: tokens that share a table of the causal form. The result does not depend on it.

    Raises:
        ValueError: a chunk below 1, a state of another shape, or ``is_causal`` with different lengths.

    Cost: 4 n f e FLOPs per head, 2 n chunk (f + e) more if causal. Memory grows like n: (n + m) f features and an output;
        if causal, n chunk weights and f e numbers a chunk as well. Without gradients, on a processor, little but the output.
    Reduces to: the mean of the values when all features are equal.
    Source: katharopoulos2020, sections 3.2 and 3.3; yang2024gla for the chunks.
    Chapter: 18_linear.
    """
    _check(query, key, value, is_causal, chunk)
    key, value = (repeat_heads(x, query.size(1)) for x in (key, value))
    hidden = padding(key_mask, key)
    if normalize and state is None and not return_state and hasattr(feature_map, "log_features"):
        return _of_scaled_features(feature_map, query, key, value, hidden, is_causal, chunk)
    read = _in_order if is_causal else _all_by_all
    options = {"normalize": normalize, "state": state, "chunk": chunk}
    output, parts = read(feature_map, query, key, value, hidden, **options)
    return (output, torch.cat(parts, dim=-1)) if return_state else output


def _in_order(feature_map, query, key, value, hidden, *, normalize, state, chunk):
    """Each query reads the keys up to its own."""
    outputs, parts = [], None
    for q, k, v, gone in blocks(chunk, query, key, value, hidden):
        queries, keys, _ = paired_features(feature_map, q, k, gone)
        parts = _parts(state, keys, v, normalize) if parts is None else parts
        read, parts = causal_sums(queries, keys, v, normalize, parts, chunk)
        outputs.append(_output(read))
    return torch.cat(outputs, dim=2), parts


def _all_by_all(feature_map, query, key, value, hidden, *, normalize, state, chunk):
    """Each query reads all keys."""
    parts = None
    for k, v, gone in blocks(chunk, key, value, hidden):
        keys = features_of(feature_map, k, gone)
        parts = _parts(state, keys, v, normalize) if parts is None else parts
        parts = [x + y for x, y in zip(parts, written(keys, v, normalize), strict=True)]
    queries = (features_of(feature_map, q) for (q,) in blocks(chunk, query))
    return torch.cat([_output([q @ x for x in parts]) for q in queries], dim=2), parts


def _of_scaled_features(feature_map, query, key, value, hidden, is_causal, chunk) -> Tensor:
    """What is read with features that are scaled; if causal, their sums fade where the scale grows."""
    options = {"scaled": True, "is_causal": is_causal}
    queries, keys, fading = paired_features(feature_map, query, key, hidden, **options)
    if fading is None:
        return _output([queries @ x for x in written(keys, value, normalize=True)])
    counted = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    sums = gated_linear_attention(queries, keys, counted, fading, scale=1.0, chunk=chunk)
    return _output([sums[..., :-1], sums[..., -1:]])


def _output(read: list[Tensor]) -> Tensor:
    """Sums of weighted values, divided by the sum of the weights if there is one."""
    return _divide(*read) if len(read) > 1 else read[0]


class LinearAttention(MultiHeadAttention):
    """Multi-head attention with `linear_attention` in its heads.

        head_h = linear_attention(query W_h^Q, key W_h^K, value W_h^V)

    Positions turn queries and keys before their features are made. Padding is the only mask.

    Args:
        embed_dim, num_heads, options: as in `MultiHeadAttention`, without dropout.
        feature_map: (..., head_dim) to (..., f); a module's parameters are learned.
        normalize, chunk: see `linear_attention`.

    Raises:
        ValueError: dropout, or what `MultiHeadAttention` refuses.

    Cost: see `linear_attention`.
    Reduces to: the mean of the values behind the projections, when all features are equal.
    Source: katharopoulos2020.
    Chapter: 18_linear.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        feature_map: FeatureMap = elu_plus_one,
        *,
        normalize: bool = True,
        chunk: int = 64,
        **options,
    ):
        super().__init__(embed_dim, num_heads, **options)
        if self.dropout:
            raise ValueError(f"LinearAttention has no dropout; got {self.dropout}, leave it at 0")
        self.feature_map, self.normalize, self.chunk = feature_map, normalize, chunk

    def read(self, q: Tensor, k: Tensor, v: Tensor, **options):
        """`linear_attention` with this layer's features."""
        return linear_attention(
            q,
            k,
            v,
            feature_map=self.feature_map,
            normalize=self.normalize,
            chunk=self.chunk,
            **options,
        )

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
        offset: int = 0,
    ) -> tuple[Tensor, Tensor | None]:
        """As in `MultiHeadAttention`; keys of earlier tokens come in as a state, by `advance`."""
        refuse(self, "what was read before is a state", offset=offset or None)
        mask = key_mask(
            attn_mask, self, "the state sums over all keys alike, so no pair can be hidden"
        )
        options: dict[str, Any] = {"is_causal": is_causal}
        if mask is not None:
            options["key_mask"] = mask.expand(k.size(0), 1, -1)
        if not need_weights:
            return self.read(q, k, v, **options), None
        options |= {"feature_map": self.feature_map, "normalize": self.normalize}
        weights = linear_weights(q, k, **options)
        return mix(weights, repeat_heads(v, self.num_heads)), weights

    def advance(
        self,
        x: Float[Tensor, "b n width"],
        state: Tensor | None,
        positions: Tensor | None = None,
        present: Bool[Tensor, "b n"] | None = None,
    ) -> tuple[Float[Tensor, "b n width"], Tensor]:
        """The outputs of tokens behind a state, and the state behind them."""
        q, k, v = self.project(x, x, x, positions)
        options = {"is_causal": True, "key_mask": present}
        heads, state = self.read(q, k, v, state=state, return_state=True, **options)
        return self.join(heads, x), state


decodes(LinearAttention, LinearCache.of)(decode_with_state)


def _divide(sums: Tensor, total: Tensor) -> Tensor:
    """``sums / total``, and 0 where nothing was read: features may all be 0, or round to it."""
    return sums / total.masked_fill(total == 0, 1.0)


def _check(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, chunk: int) -> None:
    check_sequences(query, key, value, shared_heads=True)
    if chunk < 1:
        raise ValueError(f"chunk counts the tokens of a step and must be at least 1; got {chunk}")
    if is_causal and query.size(2) != key.size(2):
        raise ValueError(
            f"is_causal reads one sequence, as many keys as queries; got {query.size(2)} queries and "
            f"{key.size(2)} keys. Earlier keys come in by state"
        )


def _parts(state: Tensor | None, keys: Tensor, values: Tensor, normalize: bool) -> list[Tensor]:
    """The two parts of a state, or what they are before the first token."""
    widths = [values.size(-1), *([1] if normalize else [])]
    wanted = (*keys.shape[:2], keys.size(-1), sum(widths))
    if state is None:
        return [keys.new_zeros(*wanted[:3], width) for width in widths]
    if state.shape != wanted:
        raise ValueError(
            f"state must be {wanted}: a row for each feature, a column for each number of a value "
            f"and, with normalize, one more; got {tuple(state.shape)}. Pass what return_state returned"
        )
    return list(state.split(widths, dim=-1))
