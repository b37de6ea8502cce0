"""Attention that scores content and position apart, among the variants."""

from functools import partial

import torch
import torch.nn.functional as F

from attncourse import spec
from support.cases import draw, module, qkv, some_pairs, variant, weighing
from support.cases.layers import attending, heads_of, sequences
from support.mutants import MUTANTS

# Some distances have a bucket of their own, some share, some lie beyond.
BUCKETS = {"buckets": 4, "furthest": 5}
LAYER = {"n": 5, "m": 5, "d": 4}


def disentangled(p, s, tables, limit, visible=None, mask=None, buckets=None, **options):
    """A variant of `disentangled_attention`, whose run takes the fused function.

    Args:
        tables: which of ``"pos_key"`` and ``"pos_query"`` there are; of 8 rows.
        visible: what the loops may use; ``mask`` and ``options`` say the same to the function.
        buckets: of `log_bucket`.
    """
    disentangled = module(p, "disentangled")
    q, k, v = qkv(s)
    given = [partial(f.log_bucket, **buckets) if buckets else None for f in (disentangled, spec)]

    def stored(q, k, v, *drawn, **more):
        named = dict(zip(tables, drawn, strict=True)) | {"bucket": given[0], "attn_mask": mask}
        return disentangled.disentangled_attention(q, k, v, **named | options | more)

    def by_loops(q, k, v, *drawn):
        kept = {name: x for name, x in options.items() if name in ("content", "p2c")}
        named = dict(zip(tables, drawn, strict=True)) | {"bucket": given[1], "attn_mask": visible}
        return spec.disentangled_attention(q, k, v, **named | kept)

    return weighing(
        (q, k, v, *draw(*[(s.h, 8, s.d)] * len(tables))), stored, spec=by_loops,
        run=lambda *inputs: stored(*inputs, need_weights=False)[0],
        dropped=lambda *inputs: stored(*inputs, dropout_p=0.5),
        limit=lambda: limit(disentangled.disentangled_attention, q, k, v),
        is_causal=options.get("is_causal", False),
    )  # fmt: skip


@variant("disentangled_attention", d=4)
def all_terms(p, s):
    def no_tables(attend, q, k, v):
        return attend(q, k, v, need_weights=False)[0], F.scaled_dot_product_attention(q, k, v)

    return disentangled(p, s, ("pos_key", "pos_query"), no_tables, buckets=BUCKETS)


@variant("disentangled_attention, c2p, causal and bool mask", n=7, d=4)
def content_to_position(p, s):
    pairs = some_pairs(s.b, 1, s.n, s.m)
    visible = pairs & spec.causal(s.n, s.m)

    def one_row_for_all(attend, q, k, v):  # then c2p is a constant in every row
        table = draw((s.h, 1, s.d))[0].expand(-1, 6, -1)
        output = attend(q, k, v, table, attn_mask=pairs, is_causal=True)[0]
        return output, F.scaled_dot_product_attention(q, k, v, visible, scale=(2 * s.d) ** -0.5)

    return disentangled(p, s, ("pos_key",), one_row_for_all, visible, pairs, is_causal=True)


@variant("disentangled_attention, p2c only, as the paper prints it", n=9, m=11, d=4)
def position_to_content(p, s):
    def row_of_zeros(attend, q, k, v):
        zeros = torch.zeros(s.h, 8, s.d).to(q)
        mean = v.mean(-2, keepdim=True).expand(s.b, s.h, s.n, s.e)
        return attend(q, k, v, pos_query=zeros, content=False)[0], mean

    options = {"content": False, "p2c": "paper"}
    return disentangled(p, s, ("pos_query",), row_of_zeros, buckets=BUCKETS, **options)


def deberta(p, s, limit, span=3, is_causal=False, buckets=None, **options):
    """A variant of `DisentangledAttention`."""
    torch.manual_seed(0)
    make = module(p, "disentangled").DisentangledAttention
    layer = make(s.h * s.d, s.h, span, dropout=0.5, **options).double().eval()
    shared = options.get("share_proj", False)

    def table(name):
        own = getattr(layer, name[0] + "_proj" if shared else f"pos_{name[0]}_proj")
        return own(layer.positions).unflatten(-1, (s.h, s.d)).transpose(0, 1)

    def by_loops(q, k, v):
        named = {"c2p": "key", "p2c": "query"}
        tables = [table(x) if term in layer.terms else None for term, x in named.items()]
        fixed = {name: x for name, x in options.items() if name in ("content", "p2c")}
        bucket = partial(spec.log_bucket, **buckets) if buckets else None
        fixed |= {"bucket": bucket, "is_causal": is_causal}
        return spec.disentangled_attention(q, k, v, *tables, **fixed)

    (x,) = sequences(s)
    fixed = {"is_causal": is_causal}
    dropped = partial(dropping, layer, fixed)
    return attending(layer, x, limit, by_loops, fixed=fixed, dropped=dropped)


def dropping(layer, fixed, x):
    return layer.train()(x, need_weights=True, **fixed)


@variant("DisentangledAttention, causal", **LAYER)
def deberta_causal(p, s):
    def table_of_zeros(layer, x):
        """The terms of positions are 0, and the scale still counts three of them."""
        none = module(p, "disentangled").DisentangledAttention(s.h * s.d, s.h, 3, bias=False)
        torch.nn.init.zeros_(none.double().positions)
        q, k, v = (heads_of(none, x, f"{name}_proj", s.h) for name in "qkv")
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=(3 * s.d) ** -0.5)
        return none(x, is_causal=True), none.out_proj(heads.transpose(1, 2).flatten(2))

    return deberta(p, s, table_of_zeros, is_causal=True)


@variant("DisentangledAttention, buckets and shared projections", **LAYER | {"n": 7, "m": 7})
def deberta_shared(p, s):
    def no_terms(layer, x):
        plain = p.layers.SelfAttention(s.h * s.d, s.h).double()
        none = module(p, "disentangled").DisentangledAttention(s.h * s.d, s.h, 4, terms=()).double()
        none.load_state_dict(layer.state_dict())
        plain.load_state_dict(layer.state_dict(), strict=False)
        return none(x), plain(x)

    options = {"span": 4, "furthest": 5, "share_proj": True}
    return deberta(p, s, no_terms, buckets=BUCKETS, **options)


@variant("DocumentBiasAttention", **LAYER)
def document_bias(p, s):
    (x,) = sequences(s)
    (table, alpha, beta) = draw((5,), (s.h,), (s.h,))
    torch.manual_seed(0)
    make = module(p, "document_bias").DocumentBiasAttention
    layer = make(s.h * s.d, s.h, 2, dropout=0.5).double().eval()
    plain = p.layers.SelfAttention(s.h * s.d, s.h).double()
    plain.load_state_dict(layer.state_dict(), strict=False)
    as_it_starts = layer(x).detach(), plain(x).detach()
    with torch.no_grad():
        layer.table.copy_(table), layer.alpha.copy_(alpha), layer.beta.copy_(beta)

    def by_loops(q, k, v):
        moved = spec.document_bias(layer.table, layer.alpha, layer.beta)
        return spec.scaled_dot_product_attention(q, k, v, is_causal=True, score_mod=moved)

    fixed = {"is_causal": True}
    more = {"fixed": fixed, "fused": True, "dropped": partial(dropping, layer, fixed)}
    return attending(layer, x, lambda *_: as_it_starts, by_loops, **more)


MUTANTS += [
    ("disentangled", "exact = buckets // 2", "exact = buckets // 2 + 1"),
    ("disentangled", "if exact < 1 or furthest - 1 <= exact:", "if exact < 1 or furthest <= exact:"),
    ("disentangled", "if exact < 1 or furthest - 1 <= exact:", "if furthest - 1 <= exact:"),
    ("disentangled", "math.log((furthest - 1) / exact)", "math.log(furthest / exact)"),
    ("disentangled", "torch.ceil((exact - 1) * share)", "torch.floor((exact - 1) * share)"),
    ("disentangled", "torch.ceil((exact - 1) * share)", "torch.ceil(exact * share)"),
    ("disentangled", "distance.sign() * shared", "shared"),
    ("disentangled", "clamp(0, 2 * span - 1)", "clamp(0, 2 * span)"),
    ("disentangled", "clamp(0, 2 * span - 1)", "remainder(2 * span)"),
    ("disentangled", "clamp(0, 2 * span - 1)", "clamp(1, 2 * span - 1)"),
    ("disentangled", "rows.as_strided((n, m), (1, 1)).flip(0)", "rows.as_strided((n, m), (1, 1))"),
    ("disentangled", "rows.as_strided((n, m), (1, 1)).flip(0)", "rows.flip(0).as_strided((n, m), (1, 1))"),
    ("disentangled", "bool(content) + len(tables)", "1 + len(tables)"),
    ("disentangled", "bool(content) + len(tables)", "bool(content) + bool(tables)"),
    ("disentangled", "query.size(-1) * num_terms", "query.size(-1)"),
    ("disentangled", "    query = query * scale  #", "    #"),
    ("disentangled", "    pos_query = pos_query * scale\n", ""),
    ("disentangled", "weights if need_weights else None", "weights"),
    ("disentangled", "scale if content else 0.0", "scale"),
    ("disentangled", "add_causal(attn_mask, query.size(2),", "add_causal(None, query.size(2),"),
    ("disentangled", "key.size(2), query.device, offset)", "key.size(2), query.device)"),
    ("disentangled", "    check_sequences(query, key, value)\n", ""),
    ("disentangled", "terms[0] + terms[1] if", "terms[0].add_(terms[1]) if"),
    ("disentangled", "if len(terms) == 2 else terms[0], attn_mask", "if len(terms) == 2 else terms[0], None"),
    ("disentangled", "        check_mask(attn_mask, axes=4)\n", "        pass\n"),
    ("disentangled", "value, attn_mask, **options), None", "value, attn_mask), None"),
    ("disentangled", "(query @ pos_key.mT).gather(-1", "(key @ pos_key.mT).gather(-1"),
    ("disentangled", "(query @ pos_key.mT).gather(-1, index.expand(shape))", "(query[..., None, :] * pos_key[:, index]).sum(-1)"),
    ("disentangled", "return c2p, (pos_query @ key.mT).gather(-2, index.expand(shape))", "return c2p, (pos_query @ key.mT).gather(-2, index.flip(0).expand(shape))"),
    ("disentangled", "relative_index(m, n, span, bucket, query.device, -offset).mT", "relative_index(n, m, span, bucket, query.device, offset)"),
    ("disentangled", "relative_index(m, n, span, bucket, query.device, -offset).mT", "relative_index(m, n, span, None, query.device, -offset).mT"),
    ("disentangled", "index = relative_index(n, m, span, bucket, query.device, offset)", "index = relative_index(n, m, span, None, query.device, offset)"),
    ("disentangled", "query.device, -offset).mT", "query.device, offset).mT"),
    ("disentangled", "span, bucket, query.device, offset)", "span, bucket, query.device)"),
    ("disentangled", "    if n == 1:", "    if n < 1:"),
    ("disentangled", "index_select(1, index[0])", "index_select(1, index[0].flip(0))"),
    ("disentangled", "rows.as_strided((n, m), (1, 1))", "rows.unfold(0, m, 1)"),
    ("disentangled", "device=device) + offset", "device=device)"),
    ("disentangled", 'p2c not in ("code", "paper")', "False"),
    ("disentangled", "any(shape != (h, rows, d) for shape in shapes)", "False"),
    ("disentangled", "rows < 2 or rows % 2 or", "rows < 2 or"),
    ("disentangled", 'if not set(terms) <= {"c2p", "p2c"}:', "if not terms:"),
    ("disentangled", "positions is not None and positions.shape != (2 * span, embed_dim)", "False"),
    ("disentangled", "buckets=span, furthest=furthest)", "buckets=2 * span, furthest=furthest)"),
    ("disentangled", "own = not share_proj", "own = True"),
    ("disentangled", "self.pos_k_proj or self.k_proj", "self.pos_k_proj or self.q_proj"),
    ("disentangled", 'if "c2p" in self.terms else None\n', "if self.terms else None\n"),
    ("disentangled", 'if "p2c" in self.terms else None\n', "if self.terms else None\n"),
    ("disentangled", '{"content": self.content, "bucket"', '{"bucket"'),
    ("disentangled", ', "p2c": self.p2c}', "}"),
    ("disentangled", '"is_causal": is_causal, "need_weights"', '"need_weights"'),
    ("disentangled", '"need_weights": need_weights}', '"need_weights": False}'),
    ("disentangled", '"dropout_p": self.dropout_p, "offset"', '"offset"'),
    ("disentangled", ', "offset": offset}', "}"),
    ("disentangled", ', "dropout_p": dropout_p}', "}"),
    ("disentangled", "decodes(DisentangledAttention)(decode_by_attend)", ""),
    ("disentangled", '    one_sequence = "a distance', '    other = "a distance'),
    ("disentangled", "        self.positions = positions\n", "        self.positions = nn.Parameter(positions.detach())\n"),
    ("disentangled", "bucket=self.bucket, p2c=self.p2c)", "bucket=self.bucket)"),
    ("document_bias", "self.alpha[:, None, None] * of_distance", "of_distance"),
    ("document_bias", "+ self.beta[:, None, None]", "+ self.beta[:, None, None] * of_distance"),
    ("document_bias", "(offset + i[:, None] - j)", "(i[:, None] - j)"),
    ("document_bias", "(offset + i[:, None] - j)", "(offset + j - i[:, None])"),
    ("document_bias", "n, m, q.device, offset)", "n, m, q.device)"),
    ("document_bias", "need_weights=need_weights)", "need_weights=True)"),
    ("document_bias", "decodes(DocumentBiasAttention)(decode_by_attend)", ""),
    ("document_bias", '    one_sequence = "a distance', '    other = "a distance'),
    ("document_bias", "torch.zeros(2 * span + 1)", "torch.ones(2 * span + 1) / torch.arange(1, 2 * span + 2)"),
    ("document_bias", "add_causal(attn_mask, n, m, q.device, offset)", "add_causal(None, n, m, q.device, offset)"),
    ("document_bias", "        if is_causal:\n", "        if is_causal and attn_mask is None:\n"),
    ("disentangled", "attn_mask, need_weights or learns, ", "attn_mask, need_weights, "),
]  # fmt: skip
