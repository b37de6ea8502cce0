"""Document 000, a long reference: five classes, each with a demo that draws a map.

All of them train with dropout 0.1 on the weights unless told otherwise, and return the output only. In a mask 0 hides,
but for the window's. A query whose keys are all hidden reads nothing; there it became NaN.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse import layers, shared_heads
from attncourse.documents.visible import by_sample, zero_hides
from attncourse.layers import merge_heads, split_heads
from attncourse.steps import repeat_heads
from attncourse.variants import disentangled, window


class Drawn:
    """What the demos use of a layer: its width, the width of a head, and a map."""

    def measure(self, d_model: int, num_heads: int) -> None:
        """The attributes of the document."""
        self.d_model, self.head_dim = d_model, d_model // num_heads

    def visualize_attention(self, attn_weights: Tensor, head_idx: int = 0) -> None:
        """Draw the map of one head of sample 0: weights (b, h, n, m), as the call gives them."""
        draw({f"Head {head_idx}": attn_weights[0, head_idx]})


class MultiHeadAttention(Drawn, layers.MultiHeadAttention):
    """Multi-head attention.

    What differs: a d_model that is no multiple of num_heads is refused; there, some lengths ran and mixed the tokens.

    Args:
        d_model: width of the input and of the output.
        num_heads: number of heads.
        dropout: probability that a weight is zeroed while training.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.1):
        super().__init__(d_model, num_heads, dropout)
        self.measure(d_model, num_heads)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, n, d_model) from queries of n tokens, keys and values of m; in the mask 0 hides."""
        return super().forward(q, k, v, attn_mask=zero_hides(mask))


class SharedHeads(Drawn, shared_heads.GroupedQueryAttention):
    """What has fewer key/value heads than query heads, and is called with two sequences."""

    def forward(self, q: Tensor, kv: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, n, d_model) from queries of n tokens, keys and values of m; in the mask 0 hides."""
        return super().forward(q, kv, attn_mask=zero_hides(mask))

    def kv_proj(self, kv: Tensor) -> Tensor:
        """Keys and values for every query head side by side, (b, m, 2 d_model), for a demo that cuts them apart.

        The layer computes those of its few heads only; here each stands once for every head that reads it.
        """
        heads = [
            repeat_heads(split_heads(proj(kv), self.num_kv_heads), self.num_heads)
            for proj in (self.k_proj, self.v_proj)
        ]
        return torch.cat([merge_heads(x) for x in heads], dim=-1)


class GroupedQueryAttention(SharedHeads):
    """Grouped-query attention.

    What differs: keys and values have num_groups heads; there they had num_heads, and nothing was shared. Heads are
    merged token by token; there a transpose was missing, tokens mixed, and a causal layer saw the future. Keys may be
    fewer or more than queries.

    Args:
        num_groups: of query heads, a divisor of num_heads; the number of key/value heads.
        d_model, num_heads, dropout: as in `MultiHeadAttention`.
    """

    def __init__(self, d_model: int, num_heads: int, num_groups: int, dropout: float = 0.1):
        super().__init__(d_model, num_heads, num_groups, dropout=dropout)
        self.measure(d_model, num_heads)
        self.num_groups, self.heads_per_group = num_groups, num_heads // num_groups

    def visualize_attention(
        self, attn_weights: Tensor, group_idx: int = 0, head_idx: int = 0
    ) -> None:
        """Draw the map of one head of a group of sample 0: weights (b, groups, heads of a group, n, m)."""
        draw({f"Group {group_idx}, head {head_idx}": attn_weights[0, group_idx, head_idx]})


class MultiQueryAttention(SharedHeads, shared_heads.MultiQueryAttention):
    """Multi-query attention.

    What differs: there is one key/value head. There, the wide key of each token was cut into num_heads slices that
    became further tokens, nothing was saved, and a causal mask did not fit.

    Args: as in `MultiHeadAttention`.
    """

    def __init__(self, d_model: int, num_heads: int, dropout: float = 0.1):
        super().__init__(d_model, num_heads, dropout=dropout)
        self.measure(d_model, num_heads)


class SlidingWindowAttention(Drawn, window.SlidingWindowAttention):
    """Attention of neighbours, to both sides.

    What differs: only the blocks that hold neighbours are computed, so that time and memory are linear; there, all
    pairs were. Odd windows follow the formula, |i - j| <= window_size / 2; there they had one key more on the left.

    Args:
        window_size: w for w // 2 neighbours on each side, so w + 1 keys if w is even.
        d_model, num_heads, dropout: as in `MultiHeadAttention`.
    """

    def __init__(self, d_model: int, num_heads: int, window_size: int, dropout: float = 0.1):
        super().__init__(d_model, num_heads, window_size, dropout=dropout)
        self.measure(d_model, num_heads)
        self.window_size = window_size  # type: ignore[assignment]  # one number, as the demo wants it

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, n, d_model) to the same shape. A bool mask is ``True`` where a pair may be read; a float one is added."""
        return super().forward(x, attn_mask=None if mask is None else by_sample(mask))


class DisentangledAttention(Drawn, disentangled.DisentangledAttention):
    """DeBERTa's attention, which the document's picture shows: content to content, to position, and back.

    What differs: nearly all. The document's bias compares absolute positions and knows no content. Its formula,
    alpha R(i - j) + beta, is `attncourse.variants.document_bias.DocumentBiasAttention`. ``alpha`` and ``beta`` are the
    constants 1 and 0: projections learn how strong a term is, and a softmax ignores a constant. Sequences longer than
    max_seq_len share the ends of the table; there they were an error.

    Args:
        max_seq_len: distances up to this one have a row each.
        d_model, num_heads, dropout: as in `MultiHeadAttention`.
    """

    def __init__(self, d_model: int, num_heads: int, max_seq_len: int, dropout: float = 0.1):
        super().__init__(d_model, num_heads, max_seq_len)
        self.measure(d_model, num_heads)
        self.dropout, self.max_seq_len = dropout, max_seq_len
        self.register_buffer("alpha", torch.ones(num_heads, 1, 1), persistent=False)
        self.register_buffer("beta", torch.zeros(num_heads, 1, 1), persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(b, n, d_model) to the same shape. A mask (b, n) says which tokens are there, and 0 which are padding.

        Raises:
            ValueError: a mask of two axes that has no row for each sample.
        """
        if mask is not None and mask.dim() == 2:
            if mask.shape != x.shape[:2]:
                raise ValueError(
                    f"a mask of two axes marks the tokens of each sample, {tuple(x.shape[:2])}; got "
                    f"{tuple(mask.shape)}. For one about pairs pass mask[None]"
                )
            mask = mask[:, None]
        return super().forward(x, attn_mask=zero_hides(mask))

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        _, weights = super().attend(q, k, v, attn_mask, is_causal, need_weights=True)
        assert weights is not None  # they were asked for
        weights = F.dropout(weights, self.dropout, self.training)
        return weights @ v, weights

    def get_relative_positions(self, seq_len: int) -> Tensor:
        """What distances add to scores when tokens say nothing, (1, heads, n, n): the same on every diagonal.

        Only this part can be had without the tokens: what they ask of positions is in ``terms_of``.
        """
        silence = self.positions.new_zeros(1, seq_len, self.d_model)
        terms = [x for x in self.terms_of(silence)[1:] if x is not None]
        return sum(terms, torch.tensor(0.0)) / (3 * self.head_dim) ** 0.5

    def visualize_attention(self, attn_weights: Tensor, head_idx: int = 0) -> None:
        """Draw the map of one head of sample 0, beside the weights that distances alone would give."""
        n = attn_weights.size(-1)
        distances = self.get_relative_positions(n).softmax(-1)
        draw(
            {
                f"Head {head_idx}": attn_weights[0, head_idx],
                "Distances alone": distances[0, head_idx],
            }
        )


def draw(maps: dict[str, Tensor]) -> None:
    """Show maps where a notebook runs; elsewhere, print what they show."""
    from IPython.display import display

    from attncourse.show import plots

    display(plots.heatmaps(maps, vmax=None))
