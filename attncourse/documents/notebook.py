"""Document 002, an exported notebook: two classes for one sequence, without masks and dropout."""

from torch import Tensor

from attncourse import layers, shared_heads


class MultiHeadAttention(layers.MultiHeadAttention):
    """Multi-head self-attention.

    What differs: a hidden_dim that is no multiple of num_heads is refused when the layer is made; there it failed at
    its first input.

    Args:
        hidden_dim: width of the input and of the output.
        num_heads: number of heads.
    """

    def __init__(self, hidden_dim: int, num_heads: int):
        super().__init__(hidden_dim, num_heads)

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, hidden_dim) to the same shape."""
        return super().forward(x)


class GroupQueryAttention(shared_heads.GroupedQueryAttention):
    """Grouped-query attention: query_heads heads ask, and kv_heads heads answer them.

    What differs: there is a softmax behind scores that are divided by sqrt(head_dim), and every query head has an
    output of its own. There, scores were added over the query heads of a group and used as weights as they were,
    so that these heads did not exist. Query head h reads head h // (query_heads / kv_heads), as in the paper; there
    it was h % kv_heads.

    Args:
        hidden_dim: width of the input and of the output.
        query_heads: a divisor of hidden_dim.
        kv_heads: a divisor of query_heads; 1 is multi-query attention.
    """

    def __init__(self, hidden_dim: int, query_heads: int, kv_heads: int):
        super().__init__(hidden_dim, query_heads, kv_heads)

    def forward(self, x: Tensor) -> Tensor:
        """(b, n, hidden_dim) to the same shape."""
        return super().forward(x)
