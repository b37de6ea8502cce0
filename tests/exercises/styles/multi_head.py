"""Right answers to the exercises on multi-head attention."""

import warnings
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercises.multi_head import head_dim, honest_plot
from attncourse.grading.exercises.multi_head.train_reversal import LENGTH, VOCAB, OwnAttention
from attncourse.grading.heads import merge, split
from styles import style


@style("split_heads")
def view_and_transpose(x, num_heads):
    batch, n, width = x.shape
    return x.reshape(batch, n, num_heads, width // num_heads).transpose(1, 2)


@style("split_heads")
def chunks_of_the_width(x, num_heads):
    return torch.stack(x.chunk(num_heads, dim=-1), dim=1)


@style("split_heads")
def slices_into_zeros(x, num_heads):
    batch, n, width = x.shape
    d = width // num_heads
    heads = x.new_zeros(batch, num_heads, n, d)
    for h in range(num_heads):
        heads[:, h] = x[:, :, h * d : (h + 1) * d]
    return heads


@style("split_heads")
def permuted_then_cut(x, num_heads):
    return x.mT.unflatten(1, (num_heads, -1)).mT


style("count_parameters", 4 * 512.0**2 + 4 * 512, name="float")
style("count_parameters", torch.tensor(1_050_624), name="tensor")
style("count_parameters", [1_050_624], name="list")


@style("merge_heads")
def contiguous_and_view(heads):
    return heads.permute(0, 2, 1, 3).contiguous().view(len(heads), heads.size(2), -1)


@style("merge_heads")
def concatenate(heads):
    return torch.cat(list(heads.unbind(dim=1)), dim=-1)


@style("merge_heads")
def stack_and_flatten(heads):
    return torch.stack([*heads.unbind(1)], dim=2).flatten(start_dim=-2)


@style("merge_heads")
def loops(heads):
    batch, num_heads, n, head_dim = heads.shape
    out = heads.new_zeros(batch, n, num_heads * head_dim)
    for h in range(num_heads):
        for d in range(head_dim):
            out[:, :, h * head_dim + d] = heads[:, h, :, d]
    return out


@style("multi_head_attention")
def one_head_after_the_other(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    shares, maps = [], []
    slices = *(w.chunk(num_heads) for w in (w_q, w_k, w_v)), w_o.chunk(num_heads, dim=1)
    for wq, wk, wv, wo in zip(*slices, strict=True):
        scores = query @ wq.T @ (key @ wk.T).transpose(1, 2) / len(wq) ** 0.5
        maps.append(torch.softmax(scores, dim=-1))
        shares.append(maps[-1] @ (value @ wv.T) @ wo.T)
    return torch.stack(shares, dim=1), torch.stack(maps, dim=1)


@style("multi_head_attention")
def einsum(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    w_q, w_k, w_v = (w.unflatten(0, (num_heads, -1)) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bnc,hdc,bmk,hdk->bhnm", query, w_q, key, w_k) / w_q.size(1) ** 0.5
    weights, w_o = scores.softmax(dim=-1), w_o.unflatten(1, (num_heads, -1))
    return torch.einsum("bhnm,bmv,hdv,chd->bhnc", weights, value, w_v, w_o), weights


@style("multi_head_attention")
def all_other_heads_silenced(query, key, value, w_q, w_k, w_v, w_o, num_heads):
    q, k, v = (F.linear(x, w) for x, w in ((query, w_q), (key, w_k), (value, w_v)))
    q, k, v = (torch.stack(x.chunk(num_heads, -1), 1) for x in (q, k, v))
    weights = F.softmax(q @ k.mT * (num_heads / len(w_q)) ** 0.5, dim=3)
    heads, one = weights @ v, torch.eye(num_heads)[:, :, None, None]
    shares = [(heads * only).transpose(1, 2).flatten(2) @ w_o.T for only in one]
    return torch.stack(shares, dim=1), weights


@style("head_dim")
class Product(head_dim.AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads <= 0 or embed_dim // num_heads * num_heads != embed_dim:
            raise ValueError("no equal heads")
        super().__init__(embed_dim, num_heads)


@style("head_dim")
class Divisors(head_dim.AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads not in [d for d in range(1, embed_dim + 1) if embed_dim % d == 0]:
            raise type("DivisionError", (ValueError,), {})("no equal heads")
        super().__init__(embed_dim, num_heads)


@style("head_dim")
class OnItsOwn(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        if num_heads < 1 or divmod(embed_dim, num_heads)[1]:
            raise ValueError("no equal heads")
        self.num_heads, linear = num_heads, partial(nn.Linear, embed_dim)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = map(linear, [embed_dim] * 4)

    def forward(self, x):
        q, k, v = (split(p(x), self.num_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
        return self.out_proj(merge(weights @ v))


@style("honest_plot")
class LargeNegative(honest_plot.Right):
    def forward(self, x, mask=None):
        q, k, v = self.heads(x)
        scores = q @ k.mT / q.size(-1) ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -1e9)
        weights = self.dropout(scores.softmax(-1))
        return self.out_proj(merge(weights @ v)), weights


@style("honest_plot")
class DetachedForThePlotWithDropoutOfItsOwn(honest_plot.Right):
    def forward(self, x, mask=None):
        q, k, v = self.heads(x)
        scores = q @ k.mT / q.size(-1) ** 0.5
        scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
        weights, p = scores.softmax(-1), self.dropout.p
        if self.training:
            weights = weights * (torch.rand_like(weights) >= p) / (1 - p)
        return [self.out_proj(merge(weights @ v)), weights.detach().clone()]


@style("honest_plot")
class HeadByHead(honest_plot.Right):
    def forward(self, x, mask=None):
        parts = (p(x).chunk(self.num_heads, -1) for p in (self.q_proj, self.k_proj, self.v_proj))
        outputs, maps = [], []
        for q, k, v in zip(*parts, strict=True):
            scores = q @ k.mT / q.size(-1) ** 0.5
            hidden = scores if mask is None else torch.where(mask, scores, -torch.inf)
            maps.append(self.dropout(hidden.softmax(dim=-1)))
            outputs.append(maps[-1] @ v)
        return self.out_proj(torch.cat(outputs, dim=-1)), torch.stack(maps, dim=1)


@style("honest_plot")
class WrittenOut(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        q, k, v = (
            p(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


WIDTH = VOCAB + LENGTH + VOCAB  # token, position, and room for the token that attention brings


class Attention(nn.Module):
    """Embeddings and a layer of torch; weights set by hand, so that a check stays quick."""

    def __init__(self, layer=nn.MultiheadAttention, heads=1, **options):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layer = layer(WIDTH, heads, batch_first=True, **options)
        self.logits = nn.Linear(WIDTH, VOCAB)
        tokens, places = slice(VOCAB), slice(VOCAB, VOCAB + LENGTH)
        attention = getattr(self.layer, "self_attn", self.layer)
        for name, p in self.named_parameters():
            p.data *= "norm" in name
        self.token.weight.data[:, tokens] = self.logits.weight.data[:, -VOCAB:] = torch.eye(VOCAB)
        self.position.weight.data[:, places] = torch.eye(LENGTH)
        q, k, v = attention.in_proj_weight.data.view(3, WIDTH, WIDTH)
        for h in range(0, WIDTH, WIDTH // heads):
            q[h : h + LENGTH, places] = 99 * torch.eye(LENGTH).flip(1)
            k[h : h + LENGTH, places] = torch.eye(LENGTH)
        v[-VOCAB:, tokens] = torch.eye(VOCAB)
        attention.out_proj.weight.data = torch.eye(WIDTH)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        alone = isinstance(self.layer, nn.MultiheadAttention)
        return self.logits(self.layer(x, x, x)[0] if alone else self.layer(x))


class Places(nn.Module):
    """A matrix over positions."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(9.0 * torch.eye(LENGTH).flip(1))

    def forward(self, tokens):
        return self.places @ F.one_hot(tokens, VOCAB).float()


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer versions of torch warn
    style("train_reversal", torch.jit.script(OwnAttention()), name="compiled_by_script")
style("train_reversal", Attention(heads=2), name="two_heads")
style(
    "train_reversal",
    Attention(nn.TransformerEncoderLayer, dim_feedforward=8),
    name="transformer_encoder_layer",
)
style("train_reversal", Attention().double(), name="double_precision")
style("train_reversal", Places(), name="a_matrix_over_positions")
