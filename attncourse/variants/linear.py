"""Linear attention: features take the place of the exponential, and all that was read fits into one table."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from attncourse.decoding import decode_with_cache, decodes
from attncourse.layers import MultiHeadAttention
from attncourse.positions import rotary
from attncourse.steps import mix, repeat_heads

FeatureMap = Callable[[Tensor], Tensor]


def elu_plus_one(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Features that are positive: x + 1 where x > 0, exp(x) elsewhere.

    Source: katharopoulos2020, eq. 7.
    Chapter: 18_linear.
    """
    # Not F.elu(x) + 1: that subtracts 1 first and so rounds away what is left of a small exp(x).
    return torch.exp(x.clamp(max=0)) + x.clamp(min=0)


def random_features(head_dim: int, features: int, generator: Generator | None = None) -> FeatureMap:
    """Positive features whose products are, on average, the exponential of the softmax.

        feature_r(x) = exp(w_r . x' - |x'|^2 / 2) / sqrt(features),   x' = x / head_dim ** (1/4)
        mean of features(q) . features(k)  =  exp(q . k / sqrt(head_dim))

    Args:
        head_dim: width of queries and keys.
        features: how many; the more, the closer to the mean.
        generator: draws the directions w, normal and orthogonal in groups of head_dim.

    Returns: a feature map with fixed directions.

    Source: choromanski2021, sections 2.3 and 2.4.
    Chapter: 18_linear.
    """
    normal = torch.randn(-(-features // head_dim), head_dim, head_dim, generator=generator)
    lengths = torch.randn(features, head_dim, generator=generator).norm(dim=-1, keepdim=True)
    orthogonal, upper = torch.linalg.qr(normal)
    # The signs that qr leaves are not random: without them, some directions come more often than others.
    orthogonal = orthogonal * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None]
    directions = orthogonal.mT.flatten(0, 1)[:features] * lengths

    def feature_map(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b r"]:
        x = x / head_dim**0.25
        half_square = x.square().sum(dim=-1, keepdim=True) / 2
        return torch.exp(x @ directions.to(x).mT - half_square) / math.sqrt(features)

    return feature_map


def linear_weights(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    *,
    is_causal: bool = False,
    feature_map: FeatureMap = elu_plus_one,
    normalize: bool = True,
) -> Float[Tensor, "b h n m"]:
    """The table of weights that `linear_attention` never makes.

        weight(i, j) = f(query(i)) . f(key(j)) / sum_k f(query(i)) . f(key(k))

    Args: as in `linear_attention`.

    Cost: 2 n m f FLOPs per head and n m numbers of memory, as with a softmax.
    Chapter: 18_linear.
    """
    weights = feature_map(query) @ feature_map(repeat_heads(key, query.size(1))).mT
    weights = weights.tril() if is_causal else weights
    return _divide(weights, weights.sum(dim=-1, keepdim=True)) if normalize else weights


def linear_attention(
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b g m d"],
    value: Float[Tensor, "b g m e"],
    *,
    is_causal: bool = False,
    feature_map: FeatureMap = elu_plus_one,
    normalize: bool = True,
    state: Float[Tensor, "b h f w"] | None = None,
    return_state: bool = False,
    chunk: int = 64,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention whose weights are products of features, so that the keys can meet the values first.

        state     = sum_j f(key(j)) [value(j), 1]^T
        output(i) = f(query(i)) state,   the first numbers divided by the last one

    The 1 beside each value counts: what it becomes is the sum of the weights. A causal query has a state of
    its own, the sum over j <= i. Tokens are read ``chunk`` at a time: what came before the chunk is read from
    the state, what stands inside it by a small table of weights.

    Args:
        query, key, value: query head h reads KV head h // (h / g). There is no 1 / sqrt(d).
        is_causal: query i reads keys 0..i.
        feature_map: applied to queries and keys; (b, h, n, d) to (b, h, n, f).
        normalize: divide by the sum of the weights, which should then be positive; where it is 0, so is the
            output. ``False`` leaves out the 1.
        state: of all that was read before, from ``return_state``; (b, h, f, e + 1), or (b, h, f, e) without
            ``normalize``.
        return_state: return (output, state), the state with these keys in it.
        chunk: tokens a step of the causal form. The result does not depend on it.

    Raises:
        ValueError: a chunk below 1, a state of another shape, or ``is_causal`` with different lengths.

    Cost: 4 n f e FLOPs per head, 2 n chunk (f + e) more if causal. Memory grows like n: features of all tokens, (n + m) f
        numbers, are made, and an output; more than a fused softmax takes, less than the n m of a plain one.
    Reduces to: the mean of the values when all features are equal.
    Source: katharopoulos2020, sections 3.2 and 3.3; yang2024gla for the chunks.
    Chapter: 18_linear.
    """
    key, value = (repeat_heads(x, query.size(1)) for x in (key, value))
    queries, keys = feature_map(query), feature_map(key)
    values = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1) if normalize else value
    if state is None:
        state = keys.new_zeros(*keys.shape[:2], keys.size(-1), values.size(-1))
    _check(queries, keys, values, state, is_causal, chunk)
    outputs = []
    # One chunk holds everything unless causal. `split` and `cat`: the gradient of a slice would be a full tensor.
    sizes = chunk if is_causal else max(query.size(2), key.size(2), 1)
    for q, k, v in zip(*(x.split(sizes, dim=2) for x in (queries, keys, values)), strict=True):
        if is_causal:
            read = q @ state + (q @ k.mT).tril() @ v
            state = state + k.mT @ v
        else:
            state = state + k.mT @ v
            read = q @ state
        outputs.append(_divide(read[..., :-1], read[..., -1:]) if normalize else read)
    output = torch.cat(outputs, dim=2)
    return (output, state) if return_state else output


class LinearAttention(MultiHeadAttention):
    """Multi-head attention with `linear_attention` in its heads.

        head_h = linear_attention(x W_h^Q, x W_h^K, x W_h^V)

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
    ) -> tuple[Tensor, Tensor | None]:
        if attn_mask is not None:
            raise ValueError(
                "the state sums over all keys alike, so no pair can be hidden; got an attn_mask. Use "
                "is_causal, and leave out the keys that are not to be read"
            )
        if not need_weights:
            return self.read(q, k, v, is_causal=is_causal), None
        weights = linear_weights(
            q, k, is_causal=is_causal, feature_map=self.feature_map, normalize=self.normalize
        )
        return mix(weights, repeat_heads(v, self.num_heads)), weights


class LinearCache:
    """What a `LinearAttention` keeps of all tokens so far: one table a head, which does not grow.

    Args:
        layer: whose tokens these are.

    Cost: f (e + 1) numbers a head and sequence, however many tokens have passed.
    Source: katharopoulos2020, section 3.4.
    Chapter: 18_linear.
    """

    def __init__(self, layer: LinearAttention):
        self.layer, self.state, self.length = layer, None, 0

    @property
    def nbytes(self) -> int:
        """Bytes of the state; 0 before the first token."""
        return 0 if self.state is None else self.state.nbytes

    def attend(
        self,
        query: Float[Tensor, "b h n d"],
        key: Float[Tensor, "b g n d"],
        value: Float[Tensor, "b g n e"],
        use_rotary: bool = False,
    ) -> Float[Tensor, "b h n e"]:
        """What n new tokens read: themselves and all before, as in `attncourse.cache.KVCache.attend`."""
        n = query.size(2)
        if use_rotary:
            positions = torch.arange(self.length, self.length + n, device=query.device)
            query, key = rotary(query, positions), rotary(key, positions)
        options = {"is_causal": True, "state": self.state, "return_state": True}
        output, self.state = self.layer.read(query, key, value, **options)
        self.length += n
        return output

    def __repr__(self) -> str:
        return f"LinearCache({self.length} tokens in {self.nbytes} bytes)"


@decodes(LinearAttention)
def _(layer: LinearAttention, x, cache, *, use_rotary: bool = False):
    """Any other cache would read with a softmax, or with another layer's features."""
    if not (isinstance(cache, LinearCache) and cache.layer is layer):
        raise TypeError(f"the layer decodes with a LinearCache of its own; got {cache}")
    return decode_with_cache(layer, x, cache, use_rotary=use_rotary)


def _divide(sums: Tensor, total: Tensor) -> Tensor:
    """``sums / total``, and 0 where nothing was read: features may all be 0, or round to it."""
    return sums / total.masked_fill(total == 0, 1.0)


def _check(q: Tensor, k: Tensor, v: Tensor, state: Tensor, is_causal: bool, chunk: int) -> None:
    if chunk < 1:
        raise ValueError(f"chunk counts the tokens of a step and must be at least 1; got {chunk}")
    if is_causal and q.size(2) != k.size(2):
        raise ValueError(
            f"is_causal reads one sequence, as many keys as queries; got {q.size(2)} queries and "
            f"{k.size(2)} keys. Earlier keys come in by state"
        )
    if state.shape != (wanted := (*k.shape[:2], k.size(-1), v.size(-1))):
        raise ValueError(
            f"state must be {tuple(wanted)}: a row for each feature, a column for each number of a value "
            f"and, with normalize, one more; got {tuple(state.shape)}"
        )
