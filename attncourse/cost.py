"""What attention costs, as formulas. The unit is in the name; one multiply-add counts as 2 FLOPs."""


def attention_flops(batch: int, heads: int, n: int, m: int, d: int, e: int) -> int:
    """Matrix-product FLOPs of scores and mix: 2 b h n m (d + e). The softmax is not counted.

    Args:
        n, m: number of queries and of keys.
        d, e: head_dim of queries and keys, and of values.
    """
    return 2 * batch * heads * n * m * (d + e)


def projection_flops(batch: int, n: int, m: int, embed_dim: int) -> int:
    """FLOPs of the four projections: queries and output see n rows, keys and values m rows."""
    return 2 * batch * (2 * n + 2 * m) * embed_dim**2


def multi_head_flops(batch: int, n: int, m: int, embed_dim: int) -> int:
    """FLOPs of one multi-head layer. The number of heads does not appear: h * head_dim = embed_dim."""
    return projection_flops(batch, n, m, embed_dim) + attention_flops(
        batch, 1, n, m, embed_dim, embed_dim
    )


def multi_head_parameters(
    embed_dim: int, bias: bool = True, kdim: int | None = None, vdim: int | None = None
) -> int:
    """Numbers learned by one multi-head layer: 4 embed_dim^2, plus 4 embed_dim for the biases."""
    inputs = 2 * embed_dim + (kdim or embed_dim) + (vdim or embed_dim)
    return embed_dim * inputs + (4 * embed_dim if bias else 0)


def score_bytes(batch: int, heads: int, n: int, m: int, bytes_per_number: int = 4) -> int:
    """Memory of one score (or weight) tensor: b h n m numbers. This is what grows with heads."""
    return batch * heads * n * m * bytes_per_number
