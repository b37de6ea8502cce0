"""A model that reads pairs of a key and a value, one pair a token, and says the values of keys."""

from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.lab.models.attention_only import AttentionOnly
from attncourse.lab.models.transformer import MakeAttention
from attncourse.layers import MultiHeadAttention


class Recaller(AttentionOnly):
    """`AttentionOnly` for `attncourse.lab.recall.recall`: a token is the sum of a key and a value.

        x = key + value;  x = x + attention(norm(x)) per layer;  logits = norm(x) W, one for each value

    Args:
        keys, values: as in `attncourse.lab.recall.recall`.
        embed_dim, num_heads, attention: as in `AttentionOnly`.
        length: longest sequence, if positions are added; ``None`` adds none.
        options: of `AttentionOnly`, for example ``layers``.

    Source: elhage2021, "attention-only transformers".
    Chapter: 18_linear, 19_gated_delta.
    """

    def __init__(
        self,
        keys: int = 128,
        values: int = 32,
        embed_dim: int = 64,
        num_heads: int = 1,
        length: int | None = None,
        attention: MakeAttention = MultiHeadAttention,
        **options,
    ):
        options = {"is_causal": True, "attention": attention, **options}
        super().__init__(values, length, embed_dim, num_heads, **options)
        self.token = PairEmbedding(keys, values, embed_dim)


class PairEmbedding(nn.Module):
    """The vector of a key plus that of a value; the value ``values`` is that of a question."""

    def __init__(self, keys: int, values: int, embed_dim: int):
        super().__init__()
        self.key = nn.Embedding(keys, embed_dim)
        self.value = nn.Embedding(values + 1, embed_dim)

    def forward(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n width"]:
        """Tokens are key * (values + 1) + value."""
        one_key = self.value.num_embeddings
        return self.key(tokens // one_key) + self.value(tokens % one_key)
