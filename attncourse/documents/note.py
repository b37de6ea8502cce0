"""Document 001, a note: a function, and a class for attention with several heads."""

from jaxtyping import Float
from torch import Tensor

from attncourse import layers, steps
from attncourse.documents.visible import zero_hides


def scaled_dot_product_attention(
    Q: Float[Tensor, "b n d"],
    K: Float[Tensor, "b m d"],
    V: Float[Tensor, "b m e"],
    mask: Tensor | None = None,
) -> tuple[Float[Tensor, "b n e"], Float[Tensor, "b n m"]]:
    """Attention without heads: the output, and the weights that made it.

    What differs: a query whose keys are all hidden returns 0; there it returned NaN.

    Args:
        Q, K, V: of one head.
        mask: 0 hides; (n, m), or (b, n, m) with one for each sample.
    """
    output, weights = steps.attention(
        Q[:, None], K[:, None], V[:, None], attn_mask=zero_hides(mask)
    )
    return output[:, 0], weights[:, 0]


class SelfAttention(layers.MultiHeadAttention):
    """Several heads; in spite of its name it takes queries from one sequence and keys from another, too.

    What differs: a query whose keys are all hidden returns what it would if it had read zeros; there, -1e9 in place
    of minus infinity let it read all of them alike. A mask (b, n, m) is one for each sample; there it was one for
    each head when there were as many samples as heads. ``nn`` is imported.

    Args:
        embed_size: a multiple of heads.
        heads: number of heads.

    Raises:
        ValueError: embed_size is not a multiple of heads.
    """

    def __init__(self, embed_size: int, heads: int):
        super().__init__(embed_size, heads)
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None):
        """Output (b, n, embed_size) and weights (b, heads, n, m); in the mask 0 hides."""
        return super().forward(q, k, v, attn_mask=zero_hides(mask), need_weights=True)
