"""Feature maps of linear attention: functions whose products take the place of the exponential."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor, nn

FeatureMap = Callable[[Tensor], Tensor]


def elu_plus_one(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """Features that are positive: x + 1 where x > 0, exp(x) elsewhere.

    Cost: that of ``F.elu(x) + 1``, which subtracts 1 first and so rounds away what is left of a small exp(x).
    Source: katharopoulos2020, eq. 7.
    Chapter: 18_linear.
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled():
        return x.clamp(max=0).exp() + F.relu(x)
    return _EluPlusOne.apply(x)


class _EluPlusOne(torch.autograd.Function):
    """The slope is min(feature, 1): one product backwards, where torch would compare and select twice."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clamp(max=0).exp_().add_(F.relu(x))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].clamp(max=1)

    jvp = backward


class RandomFeatures(nn.Module):
    """Positive features whose products are, on average, the exponential of the softmax.

        feature_r(x) = exp(w_r . x' - |x'|^2 / 2) / sqrt(features),   x' = x / head_dim ** (1/4)
        mean of features(q) . features(k)  =  exp(q . k / sqrt(head_dim))

    The directions w are a buffer: saved with the layer, and not learned.

    Args:
        head_dim: width of queries and keys.
        features: how many; the more, the closer to the mean.
        generator: draws the directions, normal and orthogonal in groups of head_dim.

    Cost: 2 head_dim FLOPs a token and feature.
    Source: choromanski2021, sections 2.3 and 2.4.
    Chapter: 18_linear.
    """

    directions: Tensor

    def __init__(self, head_dim: int, features: int, generator: Generator | None = None):
        super().__init__()
        self.head_dim, self.features = head_dim, features
        normal = torch.randn(-(-features // head_dim), head_dim, head_dim, generator=generator)
        lengths = torch.randn(features, head_dim, generator=generator).norm(dim=-1, keepdim=True)
        orthogonal, upper = torch.linalg.qr(normal)
        # The signs that qr leaves are not random: without them, some directions come more often than others.
        orthogonal = orthogonal * upper.diagonal(dim1=-2, dim2=-1).sign()[:, None]
        directions = orthogonal.mT.flatten(0, 1)[:features] * lengths
        self.register_buffer("directions", directions)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b r"]:
        """The features of queries or keys, (..., head_dim) to (..., features)."""
        return self.log_features(x).exp()

    def log_features(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b r"]:
        """What `forward` takes the exponential of: long vectors have features that no float holds, these it holds."""
        x = x / self.head_dim**0.25
        half_square = x.square().sum(dim=-1, keepdim=True) / 2
        return x @ self.directions.to(x).mT - half_square - math.log(self.features) / 2

    def extra_repr(self) -> str:
        return f"head_dim={self.head_dim}, features={self.features}"


def random_features(
    head_dim: int, features: int, generator: Generator | None = None
) -> RandomFeatures:
    """`RandomFeatures` of queries and keys of this width.

    Source: choromanski2021, sections 2.3 and 2.4.
    Chapter: 18_linear.
    """
    return RandomFeatures(head_dim, features, generator)


def paired_features(
    feature_map: FeatureMap,
    query: Float[Tensor, "b h n d"],
    key: Float[Tensor, "b h m d"],
    hidden: Tensor | None = None,
    *,
    scaled: bool = False,
    is_causal: bool = False,
) -> tuple[Float[Tensor, "b h n f"], Float[Tensor, "b h m f"], Float[Tensor, "b h m"] | None]:
    """Features of queries and of keys, and how features of keys fade from key to key, if they are scaled and causal.

    A map that knows the logarithm of its features, as `RandomFeatures` does by ``log_features``, need not make any that
    no float holds. Each query's features are divided by the largest of them. Those of all keys of a head are divided by the
    largest of all; if causal, by the largest so far, and what was summed before fades when that grows. All of it
    cancels in weights that are normalized.

    Args:
        hidden: ``True`` where a key is padding, (b, h, m, 1) or what broadcasts to it: its features are 0.
        scaled: divide, if the map can.
        is_causal: no query may notice the keys behind it.

    Returns: queries, keys, and the log-decays of the keys, or None.
    """
    if not (scaled and hasattr(feature_map, "log_features")):
        return features_of(feature_map, query), features_of(feature_map, key, hidden), None
    queries, keys = feature_map.log_features(query), feature_map.log_features(key)
    queries = (queries - queries.detach().amax(dim=-1, keepdim=True)).exp()
    if hidden is not None:
        keys = keys.masked_fill(hidden, -math.inf)
    largest = _finite(keys.detach().amax(dim=-1))
    if not is_causal:
        return queries, (keys - largest.amax(dim=-1)[..., None, None]).exp(), None
    largest = largest.cummax(dim=-1).values
    log_decay = F.pad(largest[..., :-1] - largest[..., 1:], (1, 0))
    return queries, (keys - largest[..., None]).exp(), log_decay


def features_of(
    feature_map: FeatureMap, x: Float[Tensor, "b h n d"], hidden: Tensor | None = None
) -> Float[Tensor, "b h n f"]:
    """Features of queries or keys, 0 where one is hidden; a learned map gets them in the dtype of its parameters."""
    own = next(feature_map.parameters(), x) if isinstance(feature_map, nn.Module) else x
    features = feature_map(x.to(own.dtype)).to(x.dtype)
    return features if hidden is None else features.masked_fill(hidden, 0.0)


def _finite(largest: Float[Tensor, "b h m"]) -> Float[Tensor, "b h m"]:
    """Where a key is padding, its largest feature is 0, and counts as the smallest of the others."""
    padding = largest == -math.inf
    smallest = largest.masked_fill(padding, torch.finfo(largest.dtype).max).amin(-1, keepdim=True)
    return torch.where(padding, smallest, largest)
