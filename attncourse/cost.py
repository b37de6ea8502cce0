"""What attention costs, as formulas. The unit is in the name; one multiply-add counts as 2 FLOPs."""

from typing import NamedTuple


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


def grouped_query_parameters(
    embed_dim: int, num_heads: int, num_kv_heads: int, bias: bool = True
) -> int:
    """Numbers learned by one layer: 2 embed_dim^2 (1 + num_kv_heads / num_heads), and the biases."""
    kv_width = embed_dim // num_heads * num_kv_heads
    return 2 * embed_dim * (embed_dim + kv_width) + (2 * (embed_dim + kv_width) if bias else 0)


def kv_cache_bytes(
    batch: int,
    layers: int,
    num_kv_heads: int,
    length: int,
    head_dim: int,
    value_dim: int | None = None,
    bytes_per_number: int = 2,
) -> int:
    """Memory of all keys and values: batch * layers * num_kv_heads * length * (head_dim + value_dim) numbers.

    Args:
        num_kv_heads: num_heads in multi-head attention, 1 in multi-query attention.
        value_dim: ``None`` means head_dim. A latent cache has one head, of the latent's width, and the
            rotary key in the place of the value.
        bytes_per_number: 2 for float16 and bfloat16, 4 for float32.
    """
    width = head_dim + (head_dim if value_dim is None else value_dim)
    return batch * layers * num_kv_heads * length * width * bytes_per_number


class Cached(NamedTuple):
    """What a released model caches: its layers, and for each layer and token heads of two widths."""

    layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int
    source: str

    def bytes(self, length: int, batch: int = 1, bytes_per_number: int = 2) -> int:
        """`kv_cache_bytes` of this model."""
        sizes = (batch, self.layers, self.num_kv_heads, length, self.head_dim, self.value_dim)
        return kv_cache_bytes(*sizes, bytes_per_number)


# Released models, from their papers and published configurations.
MODELS = {
    "Llama 2 70B": Cached(80, 64, 8, 128, 128, "touvron2023"),
    "Mistral 7B": Cached(32, 32, 8, 128, 128, "jiang2023"),
    "Falcon 40B": Cached(60, 128, 8, 64, 64, "almazrouei2023"),
    "DeepSeek LLM 67B": Cached(95, 64, 8, 128, 128, "bi2024"),
    "Llama 3.1 8B": Cached(32, 32, 8, 128, 128, "grattafiori2024"),
    "DeepSeek-V3": Cached(61, 128, 1, 512, 64, "liu2024"),
}
