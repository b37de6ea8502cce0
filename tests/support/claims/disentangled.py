"""What must hold for scores of content and position, beyond the contracts."""

from functools import partial

import pytest
import torch

from attncourse import spec
from support.cases import Sizes, draw, module, qkv, some_pairs
from support.claims import refused
from support.claims.differential import a_token_costs_little, goes_on, is_exported_and_batched
from support.contracts import Tensors, close

S = Sizes(h=2, g=2, n=6, m=9, d=4)


def tables(rows: int):
    return draw((S.h, rows, S.d), (S.h, rows, S.d))


def every_pair_finds_its_row_of_the_table(p):
    disentangled = module(p, "disentangled")
    for n, m, span in ((5, 5, 2), (3, 8, 4), (9, 2, 3), (1, 1, 1), (4, 4, 9)):
        for sizes in (None, {"buckets": 4, "furthest": 6}):
            ours = sizes and partial(disentangled.log_bucket, **sizes)
            loops = sizes and partial(spec.log_bucket, **sizes)
            expected = [[spec.table_row(i - j, span, loops) for j in range(m)] for i in range(n)]
            assert disentangled.relative_index(n, m, span, ours).tolist() == expected


def distances_are_bucketed_as_by_the_loops(p):
    bucket = module(p, "disentangled").log_bucket
    for buckets, furthest in ((2, 3), (4, 6), (8, 20), (16, 64), (32, 33), (7, 40)):
        distance = torch.arange(-3 * furthest, 3 * furthest)
        found = bucket(distance, buckets, furthest)
        assert found.tolist() == [spec.log_bucket(x, buckets, furthest) for x in distance.tolist()]
        assert torch.equal(bucket(-distance, buckets, furthest), -found)
        if buckets % 2 == 0:
            assert found[distance == furthest - 1] == buckets - 1
    # Where transformers' function begins each of 16 buckets for 64 positions, and the one that is beyond.
    begins = [*range(10), 11, 15, 20, 27, 35, 47, 64]
    found = bucket(torch.arange(65), 16, 64)
    assert [(found == k).int().argmax().item() for k in range(17)] == begins
    for buckets, furthest in ((1, 9), (8, 5), (8, 4)):
        with pytest.raises(ValueError, match=f"got buckets={buckets} and furthest={furthest}"):
            bucket(torch.arange(3), buckets, furthest)


def the_three_terms_add_up_to_the_scores(p):
    disentangled = module(p, "disentangled")
    q, k, v = qkv(S)
    pos_key, pos_query = tables(6)
    for given in ((pos_key, pos_query), (pos_key, None), (None, pos_query), (None, None)):
        terms = disentangled.score_terms(q, k, *given)
        assert [x is None for x in terms] == [False, *(x is None for x in given)]
        there = [x for x in terms if x is not None]
        weights = torch.softmax(sum(there) / (S.d * len(there)) ** 0.5, dim=-1)
        output, same = disentangled.disentangled_attention(q, k, v, *given)
        close((same, output), (weights, weights @ v))
        third = disentangled.disentangled_attention(q, k, v, *given, scale=0.3)[1]
        close(third, torch.softmax(0.3 * sum(there), dim=-1))
    layer = disentangled.DisentangledAttention(8, 2, 4, furthest=5, p2c="paper").double()
    (x,) = draw((2, 9, 8))
    summed = torch.softmax(sum(layer.terms_of(x)) / 12**0.5, dim=-1)
    close(layer(x, need_weights=True)[1], summed)
    for name, place in (("c2p", 2), ("p2c", 1)):
        alone = disentangled.DisentangledAttention(8, 2, 4, terms=(name,), share_proj=True).double()
        assert [k for k, term in enumerate(alone.terms_of(x)) if term is None] == [place]


def the_paper_mirrors_the_table_of_the_code(p):
    """Distance x stands where -x stands; only the two ends differ, because the table has an even number of rows."""
    terms = module(p, "disentangled").score_terms
    q, k, _ = qkv(S._replace(n=7, m=7))
    (table,) = draw((S.h, 16, S.d))
    mirrored = table.flip(1).roll(1, 1)
    code, paper = (terms(q, k, None, table, p2c=name)[2] for name in ("code", "paper"))
    close(paper, terms(q, k, None, mirrored)[2])
    assert (paper - code).abs().amax((0, 1)).fill_diagonal_(1).min() > 0.1
    close(paper.diagonal(dim1=-2, dim2=-1), code.diagonal(dim1=-2, dim2=-1))


def masks_mean_the_same_to_the_fused_function(p):
    attend = module(p, "disentangled").disentangled_attention
    q, k, v = qkv(S)
    pos_key, pos_query = tables(6)
    visible = torch.ones(S.n, S.m, dtype=torch.bool)
    visible[2] = visible[3, 5] = False
    added = draw((S.b, S.h, S.n, S.m))[0].masked_fill(~visible, -torch.inf)
    for given in ((pos_key, pos_query), (None, pos_query), (None, None)):
        for attn_mask in (visible, added, None):
            for is_causal in (False, True):
                options = {"attn_mask": attn_mask, "is_causal": is_causal}
                output, weights = attend(q, k, v, *given, **options)
                fused, nothing = attend(q, k, v, *given, **options, need_weights=False)
                assert nothing is None
                close(fused, output)
                if attn_mask is not None:
                    assert not output[:, :, 2].any()
    for need_weights in (False, True):
        with pytest.raises(TypeError, match="must be bool"):
            attend(q, k, v, attn_mask=visible.long(), need_weights=need_weights)


def no_tensor_is_larger_than_the_scores(p):
    """Neither forward nor backward, in bytes and with the indices; n x n x d would be 64 times as large."""
    disentangled = module(p, "disentangled")
    layer = disentangled.DisentangledAttention(128, 2, 32, furthest=128)
    for n in (128, 256):
        x = torch.randn(1, n, 128)
        for need_weights in (False, True):
            with Tensors() as seen:
                out = layer(x, need_weights=need_weights)
                (out[0] if need_weights else out).sum().backward()
            assert seen.largest <= 1.1 * 2 * n * n * 4


def beta_never_learns(p):
    layer = module(p, "document_bias").DocumentBiasAttention(12, 3, 2).double()
    (x, table, beta) = draw((2, 9, 12), (5,), (3,))
    with torch.no_grad():
        layer.table.copy_(table)
    before, weights = layer(x, need_weights=True)
    before.square().sum().backward()
    assert layer.beta.grad.abs().max() < 1e-12
    assert layer.alpha.grad.abs().min() > 1e-3
    assert layer.table.grad.abs().min() > 1e-3
    with torch.no_grad():
        layer.beta.copy_(10 * beta)
    close(layer(x, need_weights=True), (before, weights))
    pairs = some_pairs(9, 9)
    close(layer(x, attn_mask=pairs, is_causal=True), layer(x, attn_mask=pairs.tril()))


def what_is_built_is_what_was_asked_for(p):
    make = module(p, "disentangled").DisentangledAttention
    sizes = lambda layer: sum(x.numel() for x in layer.parameters())  # noqa: E731
    plain = sizes(p.layers.SelfAttention(12, 3))
    one, projection = 2 * 4 * 12, 12 * 13
    assert sizes(make(12, 3, 4)) == plain + one + 2 * projection
    assert sizes(make(12, 3, 4, terms=("p2c",))) == plain + one + projection
    assert sizes(make(12, 3, 4, share_proj=True)) == plain + one
    first = make(12, 3, 4)
    second = make(12, 3, 4, positions=first.positions)
    x = torch.randn(1, 30, 12)
    second(first(x)).sum().backward()  # longer than the table, too
    assert sizes(torch.nn.ModuleList([first, second])) == 2 * (plain + 2 * projection) + one
    assert first.positions.grad is second.positions.grad
    without = make(12, 3, 4, content=False)
    torch.nn.init.zeros_(without.positions)
    for projection in (without.pos_k_proj, without.pos_q_proj):
        torch.nn.init.zeros_(projection.bias)
    close(without(x, need_weights=True)[1], torch.full((1, 3, 30, 30), 1 / 30), atol=1e-6)


def what_cannot_be_is_refused(p):
    disentangled = module(p, "disentangled")
    make, attend = disentangled.DisentangledAttention, disentangled.disentangled_attention
    q, k, v = qkv(S)
    pos_key, pos_query = tables(6)
    shapes = r"must be \(2, 2 span, 4\)"
    refused(
        ValueError,
        ("content=False needs", lambda: attend(q, k, v, content=False)),
        (shapes, lambda: attend(q, k, v, pos_key[:1])),
        (shapes, lambda: attend(q, k, v, None, pos_query[:, :5])),
        (shapes, lambda: attend(q, k, v, pos_key, pos_query[:, :4])),
        (shapes, lambda: attend(q, k, v, pos_key[..., :3])),
        ("got 'print'", lambda: attend(q, k, v, pos_key, p2c="print")),
        (r"got \('c2c',\)", lambda: make(12, 3, 4, terms=("c2c",))),
        (r"\(8, 12\); got \(6, 12\)", lambda: make(12, 3, 4, positions=make(12, 3, 3).positions)),
    )
    x = torch.zeros(1, 3, 12)
    for layer in (make(12, 3, 4), module(p, "document_bias").DocumentBiasAttention(12, 3, 4)):
        refused(
            ValueError,
            ("takes no key and no value: a distance .* no meaning; got key", lambda: layer(x, x + 1)),  # noqa: B023
            ("one token or more", lambda: layer(x[:, :0])),  # noqa: B023
        )  # fmt: skip
    refused(
        ValueError,
        ("same length", lambda: attend(q, k, v[:, :, :2], pos_key)),
        ("one token or more", lambda: attend(q[:, :, :0], k, v, pos_key)),
        ("same batch and heads", lambda: attend(q[:1], k, v, pos_key)),
    )


def _layers(p):
    """Of all terms, of each alone, of none, with rows for single distances and for shared ones."""
    torch.manual_seed(0)
    make = module(p, "disentangled").DisentangledAttention
    yield make(24, 3, 3)
    yield make(24, 3, 4, furthest=6, p2c="paper")
    yield make(24, 3, 4, furthest=6, share_proj=True, terms=("p2c",), content=False)
    yield make(24, 3, 3, terms=("c2p",))
    yield make(24, 3, 3, terms=())
    for g in (1, 3):
        layer = module(p, "document_bias").DocumentBiasAttention(24, 3, 3, num_kv_heads=g)
        with torch.no_grad():
            layer.table += torch.randn(7)
            layer.alpha += torch.randn(3)
        yield layer


def distances_count_from_where_the_new_tokens_stand(p):
    (x,) = draw((2, 11, 24))
    for layer in _layers(p):
        goes_on(p, layer.double(), x)
        a_token_costs_little(p, layer.float())


def a_decoded_token_needs_no_products_with_all_rows(p):
    """16 keys' and 512 rows: the largest table is that of the query's products with the rows."""
    attend = module(p, "disentangled").disentangled_attention
    q, k, v, rows = torch.randn(1, 1, 1, 4), *torch.randn(2, 1, 1, 64, 4), torch.randn(1, 512, 4)
    with Tensors() as seen:
        attend(q, k, v, rows, rows, need_weights=False, offset=63)
    assert seen.largest <= rows.nbytes


def an_offset_shifts_the_queries(p):
    attend = module(p, "disentangled").disentangled_attention
    q, k, v = qkv(S._replace(n=9, m=9))
    pos_key, pos_query = tables(6)
    for p2c in ("code", "paper"):
        for is_causal in (False, True):
            options = {"p2c": p2c, "is_causal": is_causal}
            full = attend(q, k, v, pos_key, pos_query, **options)
            for first in (0, 3, 8):
                for end in (first + 1, 9):
                    part = attend(
                        q[:, :, first:end], k, v, pos_key, pos_query, offset=first, **options
                    )
                    close(part, tuple(x[:, :, first:end] for x in full))


def positions_and_contents_are_exported_and_batched(p):
    disentangled = module(p, "disentangled")
    rows = tables(6)
    bucket = partial(disentangled.log_bucket, buckets=3, furthest=5)
    shapes = lambda n: [(1, S.h, n, S.d)] * 3  # noqa: E731
    for options in (
        {},
        {"bucket": bucket, "p2c": "paper", "is_causal": True},
        {"need_weights": False},
    ):
        run = lambda q, k, v, o=options: disentangled.disentangled_attention(q, k, v, *rows, **o)[0]  # noqa: E731
        is_exported_and_batched(run, *draw(*shapes(5)), longer=draw(*shapes(8)))
    for layer in _layers(p):
        layer.double()
        run = lambda x, layer=layer: layer(x, is_causal=True)  # noqa: E731
        is_exported_and_batched(run, *draw((1, 5, 24)), longer=draw((1, 8, 24)))
