"""Fewer key/value heads than query heads: grouped-query and multi-query attention, and how a trained layer gets there."""

from attncourse.interface import check_divisible
from attncourse.layers import MultiHeadAttention


class GroupedQueryAttention(MultiHeadAttention):
    """Groups of query heads share one key/value head.

        head_h = attention(query W_h^Q, key W_g^K, value W_g^V)      g = h // (num_heads / num_kv_heads)

    Args: as in `MultiHeadAttention`, with num_kv_heads as the third.

    Reduces to: `MultiHeadAttention` when num_kv_heads = num_heads, `MultiQueryAttention` when it is 1.
    Source: ainslie2023, section 2.2.
    Chapter: 08_grouped_query.
    """

    def __init__(self, embed_dim: int, num_heads: int, num_kv_heads: int, **options):
        super().__init__(embed_dim, num_heads, num_kv_heads=num_kv_heads, **options)


class MultiQueryAttention(GroupedQueryAttention):
    """All query heads share one key/value head.

        head_h = attention(query W_h^Q, key W^K, value W^V)

    Args: as in `MultiHeadAttention`.

    Reduces to: `MultiHeadAttention` when num_heads = 1.
    Source: shazeer2019, section 3.
    Chapter: 07_multi_query.
    """

    def __init__(self, embed_dim: int, num_heads: int, **options):
        super().__init__(embed_dim, num_heads, num_kv_heads=1, **options)


def group_kv_heads(
    layer: MultiHeadAttention, num_kv_heads: int, how: str = "mean"
) -> GroupedQueryAttention:
    """A layer with fewer key/value heads, made from a trained one.

        W_g^K = mean of W_h^K over the heads h of group g, and so for W^V and the biases

    Args:
        layer: left as it is.
        num_kv_heads: a divisor of ``layer.num_kv_heads``.
        how: ``"mean"``; or, to compare, ``"first"`` keeps the first head of each group, ``"random"`` draws
            new ones, with the start values of ``nn.Linear``.

    Reduces to: a copy of the layer when num_kv_heads is what it has.
    Source: ainslie2023, section 2.1.
    Chapter: 08_grouped_query.
    """
    if how not in ("mean", "first", "random"):
        raise ValueError(f'how must be "mean", "first" or "random"; got {how!r}')
    check_divisible("num_kv_heads", layer.num_kv_heads, num_kv_heads, "the new num_kv_heads")
    grouped = GroupedQueryAttention(
        layer.embed_dim,
        layer.num_heads,
        num_kv_heads,
        dropout=layer.dropout,
        bias=layer.q_proj.bias is not None,
        kdim=layer.kdim,
        vdim=layer.vdim,
    ).to(layer.q_proj.weight)
    state = layer.state_dict()
    for name in [x for x in state if x.startswith(("k_proj", "v_proj"))]:
        # (heads of a group, ...) in front, whether it is a matrix or a bias
        members = state[name].unflatten(0, (num_kv_heads, layer.num_kv_heads // num_kv_heads, -1))
        if how == "random":
            state[name] = grouped.state_dict()[name]
        else:
            state[name] = (members.mean(1) if how == "mean" else members[:, 0]).flatten(0, 1)
    grouped.load_state_dict(state)
    return grouped.train(layer.training)
