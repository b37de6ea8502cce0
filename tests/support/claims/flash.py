"""What must hold for FlashAttention beyond the contracts: streams, merges, many tiles, empty rows, messages."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.variants.flash.split_kv import split_kv_attention
from support.cases import draw
from support.cases.flash import flash
from support.claims import refused
from support.contracts import Tensors, close, same

INFINITY = math.inf


def partial_results(p, scores, value, *widths):
    """Output and lse of each of the blocks of columns."""
    blocks = zip(scores.split(widths, -1), value.split(widths, -2), strict=True)
    return [p.online.online_softmax([block], torch.zeros_like(scores @ value)) for block in blocks]


def scores_with_gaps():
    """Scores and values; row 0 sees nothing, row 1 only the last keys, row 2 has one huge score."""
    scores, value = draw((2, 5, 11), (2, 11, 3))
    scores[:, 0] = -INFINITY
    scores[:, 1, :8] = -INFINITY
    scores[:, 2, 4] = 1e4
    return scores, value


def softmax(scores, value):
    """Output and lse, all at once."""
    return torch.softmax(scores, -1).nan_to_num(0.0) @ value, scores.logsumexp(-1)


def one_pass_over_any_stream_is_a_softmax(p):
    scores, value = scores_with_gaps()
    for widths in ((11,), (4, 4, 3), (1,) * 11, (9, 1, 1)):
        blocks = zip(scores.split(widths, -1), value.split(widths, -2), strict=True)
        found = p.online.online_softmax(blocks, torch.zeros(2, 5, 3).double())
        close(found, softmax(scores, value))


def merging_two_parts_gives_the_whole(p):
    scores, value = scores_with_gaps()
    left, right = partial_results(p, scores, value, 8, 3)
    close(p.online.merge(*left, *right), softmax(scores, value))
    close(p.online.merge(*right, *left), softmax(scores, value))


def merging_with_nothing_changes_nothing(p):
    output, lse = draw((2, 5, 3), (2, 5))
    nothing = torch.zeros_like(output), torch.full_like(lse, -INFINITY)
    close(p.online.merge(output, lse, *nothing), (output, lse), atol=1e-15)
    close(p.online.merge(*nothing, *nothing), nothing, atol=0.0)


# Several tiles in both directions, none of them whole; and a rule.
LARGE = [
    ((300, 517), {}),
    ((300, 517), {"is_causal": True}),
    ((517, 300), {"is_causal": True}),
    ((257, 256), {"is_causal": True}),
    ((128, 512), {"is_causal": True, "offset": 384}),
    ((140, 600), {"is_causal": True, "offset": 300}),
    ((600, 140), {"is_causal": True, "offset": -300}),
    ((129, 1), {"is_causal": True}),
    ((1, 900), {}),
]


def large(n, m, **rule):
    """Grouped inputs, and the pairs that the rule lets pass."""
    q, k, v = draw((1, 4, n, 3), (1, 2, m, 3), (1, 2, m, 5))
    visible = torch.ones(n, m, dtype=torch.bool)
    if rule.get("is_causal"):
        offset = rule.get("offset", 0)
        visible = torch.arange(m) <= torch.arange(n)[:, None] + offset
    return [x.requires_grad_() for x in (q, k, v)], visible


def many_tiles_equal_torch(p):
    for (n, m), rule in LARGE:
        inputs, visible = large(n, m, **rule)
        ours, aux = flash(p)(*inputs, enable_gqa=True, return_aux=True, **rule)
        same(ours, F.scaled_dot_product_attention(*inputs, visible, enable_gqa=True), inputs)
        q, k, _ = inputs
        scores = (q @ k.repeat_interleave(2, 1).mT / math.sqrt(3)).masked_fill(~visible, -INFINITY)
        close(aux.lse, scores.logsumexp(-1))


def a_mask_over_many_tiles_equals_torch(p):
    inputs, causal = large(300, 517, is_causal=True)
    generator = torch.Generator().manual_seed(4)
    for shape in ((300, 517), (1, 4, 300, 517), (1, 1, 300, 517), (1, 1, 1, 517)):
        mask = torch.rand(shape, generator=generator) > 0.7
        mask[..., 256:512] = False  # a tile in which nothing is visible
        for rule, visible in (({}, mask), ({"is_causal": True}, mask & causal)):
            ours = flash(p)(*inputs, mask, enable_gqa=True, **rule)
            same(ours, F.scaled_dot_product_attention(*inputs, visible, enable_gqa=True), inputs)


def the_log_sum_exp_has_a_gradient(p):
    (q, k, v), _ = large(70, 300)
    k, v = (x.repeat_interleave(2, 1) for x in (k, v))
    lse = flash(p)(q, k, v, return_aux=True)[1].lse
    same(lse, (q @ k.mT / math.sqrt(3)).logsumexp(-1), (q, k))


def an_empty_row_is_0_and_sends_nothing_back(p):
    (q, k, v), _ = large(5, 7)
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[3] = False
    for options in ({"attn_mask": mask}, {"is_causal": True, "offset": -2}):
        empty = 3 if "attn_mask" in options else slice(0, 2)
        output, aux = flash(p)(q, k, v, enable_gqa=True, return_aux=True, **options)
        assert not output[:, :, empty].any()
        assert (aux.lse[:, :, empty] == -INFINITY).all()
        for gradient in torch.autograd.grad(output[:, :, empty].sum(), (q, k, v)):
            assert not gradient.any()  # NaN counts as something


def hidden_tiles_are_left_out(p):
    device = torch.device("cpu")
    rows = p.tiled.blocks(1024, 128)
    count = [len(list(p.tiled.tiles(r, 1024, True, 0, None, device))) for r in rows]
    assert count == [1, 1, 2, 2, 3, 3, 4, 4]
    masked = [seen is not None for _, seen in p.tiled.tiles(rows[-1], 1024, True, 0, None, device)]
    assert masked == [False, False, False, True]
    nothing = torch.zeros(1024, 1024, dtype=torch.bool)
    assert not list(p.tiled.tiles(rows[0], 1024, False, 0, nothing, device))


def no_tensor_grows_with_queries_times_keys(p):
    tile = 128 * 256 * 4
    for n in (600, 1200):
        x = torch.randn(1, 1, n, 64).requires_grad_()
        with Tensors() as seen:
            flash(p)(x, x, x, is_causal=True).sum().backward()
        assert seen.largest == max(tile, n * 64 * 4), "more than one tile, or more than the inputs"


def low_precision_is_computed_in_float32(p):
    for dtype in (torch.float16, torch.bfloat16):
        q, k, v = (x.to(dtype) for x in draw((1, 2, 60, 16), (1, 2, 80, 16), (1, 2, 80, 16)))
        ours, aux = flash(p)(q, k, v, scale=0.3, return_aux=True)
        assert ours.dtype == dtype
        assert aux.lse.dtype == torch.float32
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=0.3)
        close(ours, exact.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-5)


def a_negative_scale_prefers_the_unlike(p):
    (q, k, v), _ = large(70, 90)
    ours = flash(p)(q, k, v, scale=-2.0, enable_gqa=True)
    theirs = F.scaled_dot_product_attention(-q, k, v, scale=2.0, enable_gqa=True)
    same(ours, theirs, (q, k, v))


def bad_input_is_named(p):
    q = torch.zeros(2, 4, 5, 8)
    attend = flash(p)
    ones = lambda *shape: torch.ones(shape, dtype=torch.bool)  # noqa: E731
    refused(
        ValueError,
        (r"must be \(batch, heads, seq, head_dim\)", lambda: attend(q[0], q, q)),
        ("same head_dim", lambda: attend(q, q[..., :7], q)),
        ("same length", lambda: attend(q, q, q[:, :, :3])),
        ("one token or more; got", lambda: attend(q[:, :, :0], q, q)),
        ("one token or more; got", lambda: attend(q, q[:, :, :0], q[:, :, :0])),
        ("same length", lambda: split_kv_attention(q, q, torch.zeros(2, 4, 6, 8), 2)),
        ("one token or more; got", lambda: split_kv_attention(*[q[:, :, :0]] * 3, 2)),
        (r"must be \(batch, heads, seq, head_dim\)", lambda: attend(*[q[None]] * 3)),
        ("must agree", lambda: attend(q, q[:1], q[:1])),
        ("set enable_gqa=True", lambda: attend(q, q[:, :2], q[:, :2])),
        (
            "multiple of the number of key/value heads",
            lambda: attend(q, q[:, :3], q[:, :3], enable_gqa=True),
        ),
        ("must have the axes", lambda: attend(q, q, q, ones(5, 4))),
        ("must have 2 axes", lambda: attend(q, q, q, ones(2, 5, 5))),
    )
    refused(
        TypeError,
        ("pieces must be a whole number; got 2.5", lambda: split_kv_attention(q, q, q, 2.5)),
        ("one float dtype", lambda: attend(q, q.double(), q)),
        ("one float dtype", lambda: attend(q.long(), q.long(), q.long())),
        ("True = may attend", lambda: attend(q, q, q, ones(5, 5).float())),
        ("True = may attend", lambda: attend(q, q, q, ones(5, 5).int())),
    )


def the_offset_counts_from_the_first_key(p):
    (q, k, v), _ = large(6, 9)
    visible = spec.causal(6, 9, 2)
    ours = flash(p)(q, k, v, is_causal=True, offset=2, enable_gqa=True)
    close(ours, F.scaled_dot_product_attention(q, k, v, visible, enable_gqa=True))
