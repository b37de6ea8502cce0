"""One small model, six ways to tell it where a token stands."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.lab.models.stacks import Encoder
from attncourse.positions import sinusoidal
from attncourse.scores import alibi, relative_bias, t5_bucket
from attncourse.steps import modify

KINDS = ("none", "learned", "sinusoidal", "T5", "ALiBi", "rotary")


class Positioned(nn.Module):
    """Tokens in, logits out; the same layers and the same start values for every kind of positions.

        x = token [+ vector(position)];  logits = layers(x) W

    Args:
        vocab: number of tokens.
        kind: one of `KINDS`; learned and sinusoidal add a vector to each token, T5 and ALiBi a bias to
            each score, rotary turns queries and keys, none does nothing.
        longest: rows of the learned table, the longest sequence that this kind can read.
        embed_dim, num_heads, layers: as in `Encoder`.
        is_causal: no position reads a later one.
        furthest: of `t5_bucket`; the table has 32 columns.

    Raises:
        ValueError: an unknown kind.

    Chapter: 04_positions.
    """

    def __init__(
        self,
        vocab: int,
        kind: str,
        longest: int = 256,
        embed_dim: int = 64,
        num_heads: int = 4,
        layers: int = 2,
        is_causal: bool = True,
        furthest: int = 128,
    ):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
        self.kind, self.num_heads = kind, num_heads
        self.is_causal, self.furthest = is_causal, furthest
        self.token = nn.Embedding(vocab, embed_dim)
        self.encoder = Encoder(embed_dim, num_heads, layers)
        self.logits = nn.Linear(embed_dim, vocab)
        # Drawn last, so that everything else starts from the same numbers.
        if kind == "learned":
            self.position = nn.Embedding(longest, embed_dim)
        if kind == "T5":
            self.table = nn.Parameter(torch.zeros(num_heads, 32))

    def forward(
        self, tokens: Int[Tensor, "b n"], window: int | None = None
    ) -> Float[Tensor, "b n vocab"]:
        """Logits for each position; with a ``window``, from the last so many tokens in each layer."""
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.token(tokens)
        if self.kind == "learned":
            x = x + self.position(positions)
        if self.kind == "sinusoidal":
            x = x + sinusoidal(positions, x.size(-1)).to(x)
        x = self.encoder(
            x,
            attn_mask=self._mask(positions, window),
            is_causal=self.is_causal,
            positions=positions if self.kind == "rotary" else None,
        )
        return self.logits(x)

    def bias(self, positions: Int[Tensor, " n"]) -> Float[Tensor, "1 h n n"] | None:
        """What is added to the scores, as a float mask, which is added as well."""
        if self.kind == "ALiBi":
            rule = alibi(self.num_heads)
        elif self.kind == "T5":
            rule = relative_bias(self.table, self._bucket)
        else:
            return None
        n = len(positions)
        return modify(torch.zeros(1, self.num_heads, n, n, device=positions.device), rule)

    def _mask(self, positions: Tensor, window: int | None) -> Tensor | None:
        bias = self.bias(positions)
        if window is None:
            return bias
        near = positions[:, None] - positions < window
        return near if bias is None else bias.masked_fill(~near, -torch.inf)

    def _bucket(self, distance: Tensor) -> Tensor:
        return t5_bucket(distance, 32, self.furthest, bidirectional=not self.is_causal)
