"""Document 004, the README of a package that did not come with it: three classes, a function and a factory.

`get_attention` is `attncourse.factory.get_attention`.
"""

from torch import Tensor

from attncourse import layers, steps
from attncourse.documents.visible import true_hides
from attncourse.factory import get_attention

__all__ = [
    "GroupQueryAttention",
    "MultiHeadAttention",
    "MultiQueryAttention",
    "get_attention",
    "scaled_dot_product_attention",
]


class MultiHeadAttention(layers.MultiHeadAttention):
    """Multi-head attention that starts as the README says: Xavier for the four matrices, biases of 0.

    What differs: the README promises cross-attention and shows no call for it; here a second and a third input are
    keys and values.

    Args:
        embed_dim: width of the input and of the output.
        num_heads: a divisor of embed_dim.
        apply_causal_mask: no position reads a later one.
        dropout: probability that a weight is zeroed while training.
        num_kv_heads: as in `attncourse.layers.MultiHeadAttention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        apply_causal_mask: bool = False,
        dropout: float = 0.0,
        *,
        num_kv_heads: int | None = None,
    ):
        super().__init__(embed_dim, num_heads, dropout, init="xavier", num_kv_heads=num_kv_heads)
        self.apply_causal_mask = apply_causal_mask

    def forward(
        self, query: Tensor, key: Tensor | None = None, value: Tensor | None = None, **options
    ):
        """`attncourse.layers.MultiHeadAttention.forward`, causal if the layer was made so."""
        options = {"is_causal": self.apply_causal_mask} | options
        return super().forward(query, key, value, **options)


class MultiQueryAttention(MultiHeadAttention):
    """The same with one key/value head for all.

    What differs: the README counts 3 embed_dim^2 parameters. There are 2 embed_dim^2 (1 + 1 / num_heads), and biases.

    Args: as in `MultiHeadAttention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        apply_causal_mask: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__(embed_dim, num_heads, apply_causal_mask, dropout, num_kv_heads=1)


class GroupQueryAttention(MultiHeadAttention):
    """The same with one key/value head for each group of query heads.

    Args:
        num_groups: of query heads, a divisor of num_heads; the number of key/value heads.
        embed_dim, num_heads, apply_causal_mask, dropout: as in `MultiHeadAttention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        num_groups: int,
        apply_causal_mask: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__(embed_dim, num_heads, apply_causal_mask, dropout, num_kv_heads=num_groups)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """Attention of heads, (b, h, n, d), whose mask hides where it is ``True``.

    This is the reverse of `torch.nn.functional.scaled_dot_product_attention`, which takes the same mask without an
    error and reads the future only. Dropout is on in evaluation, too: a function does not know who calls it, so pass
    ``dropout_p if self.training else 0.0``.
    """
    return steps.scaled_dot_product_attention(query, key, value, true_hides(mask), dropout_p)
