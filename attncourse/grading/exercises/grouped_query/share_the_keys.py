"""Exercise share_the_keys: document 000 groups its heads, and every head keeps keys of its own."""

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.exercises.grouped_query._share_the_keys_judge import Projections, Shared

ACCEPTED = Accepted()


@ACCEPTED.add
class RepeatedKeys(Projections):
    pass


@ACCEPTED.add
class FusedAndGrouped(Projections):
    def forward(self, x, is_causal=False):
        q, k, v = self.project(x)
        return self.join(F.scaled_dot_product_attention(q, k, v, None, 0.0, is_causal, enable_gqa=True))  # fmt: skip


@ACCEPTED.add
class GroupAxisInDouble(Projections):
    def forward(self, x, is_causal=False):
        q, k, v = (t.double() for t in self.project(x))
        q = q.unflatten(1, (self.num_kv_heads, -1))
        s = torch.einsum("bgrnd,bgmd->bgrnm", q, k) / q.size(-1) ** 0.5
        if is_causal:
            s = torch.where(torch.ones(s.shape[-2:]).tril() > 0, s, -1e9)
        heads = torch.einsum("bgrnm,bgme->bngre", s.softmax(-1), v)
        return self.out_proj(heads.flatten(2).float())


@ACCEPTED.add
class HeadByHead(Projections):
    def forward(self, x, is_causal=False):
        q, k, v = (
            p(x).split(self.head_dim, dim=-1) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        r = len(q) // len(k)
        heads = [self.attend(q[h], k[h // r], v[h // r], is_causal) for h in range(len(q))]
        return self.out_proj(torch.cat(heads, dim=-1))

    def attend(self, q, k, v, is_causal):
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


@ACCEPTED.add
class RowsOfTheMatricesRepeated(Projections):
    """The matrices are widened when they are used; what is stored stays narrow."""

    def project(self, x):
        def wide(p):
            r = self.num_heads // self.num_kv_heads
            w, b = (
                t.unflatten(0, (-1, self.head_dim)).repeat_interleave(r, dim=0).flatten(0, 1)
                for t in (p.weight, p.bias)
            )
            return F.linear(x, w, b)

        return tuple(self.split(t) for t in (self.q_proj(x), wide(self.k_proj), wide(self.v_proj)))


MISTAKES = Mistakes()


def wrong(says, rows=None, bias=True, then=None, **steps):
    """A mistake that is the right layer with some steps replaced; ``rows(H, G)`` are heads of k and v."""

    class Answer(Projections):
        def __init__(self, embed_dim, num_heads, num_kv_heads):
            widths = rows and rows(num_heads, num_kv_heads)
            super().__init__(embed_dim, num_heads, num_kv_heads, widths, bias)
            if then:
                then(self, embed_dim)

    for name, step in steps.items():
        setattr(Answer, name, step)
    MISTAKES.add(says)(Answer)


def full(H, G):
    return H, H


def attend_by(scale):
    return lambda self, q, k, v, is_causal: Projections.attend(
        self, q, k, v, is_causal, scale(self)
    )


def changed(change):
    """A layer whose projected (q, k, v) are changed before they attend."""
    return lambda self, x: change(self, *Projections.project(self, x))


def forward_by(change):
    """A layer that is asked with another is_causal."""
    return lambda self, x, is_causal=False: Projections.forward(self, x, change(is_causal))


wrong(
    "This is the code as found: k_proj and v_proj make H heads, so nothing is shared. They must make "
    "G heads.",
    full,
)
wrong(
    "k_proj and v_proj still make H heads, and only the first G of them are used. Make the projections "
    "narrower.",
    full,
    share=lambda self, x: Projections.share(self, x[:, : self.num_kv_heads]),
)
wrong(
    "k_proj and v_proj still make H heads, and one head of each group is used. Make the projections "
    "narrower.",
    full,
    share=lambda self, x: Projections.share(self, x[:, :: self.num_heads // self.num_kv_heads]),
)
wrong(
    "k_proj and v_proj still make H heads, which are averaged within a group. Make the projections "
    "narrower.",
    full,
    share=lambda self, x: Projections.share(self, x.unflatten(1, (self.num_kv_heads, -1)).mean(2)),
)
wrong("The values still have H heads; v_proj must make G heads too.", lambda H, G: (G, H))
wrong("The keys still have H heads; k_proj must make G heads too.", lambda H, G: (H, G))
wrong(
    "num_kv_heads is taken for the size of a group: k_proj and v_proj make H / G heads. They must make G.",
    lambda H, G: (H // G, H // G),
)
wrong(
    "k_proj and v_proj make a single head, whatever num_kv_heads says; they must make G.",
    lambda H, G: (1, 1),
)
wrong(
    "The groups are strided, h % G; query head h reads key head h // (H / G).",
    share=lambda self, x: x.repeat(1, self.num_heads // x.size(1), 1, 1),
)
wrong(
    "Every query head reads key head 0; head h reads key head h // (H / G).",
    share=lambda self, x: x[:, :1].expand(-1, self.num_heads, -1, -1),
)
wrong(
    "The key heads of all groups are averaged; head h reads key head h // (H / G).",
    share=lambda self, x: x.mean(1, keepdim=True).expand(-1, self.num_heads, -1, -1),
)
wrong(
    "The heads of keys and values are interleaved: head g is rows g * head_dim and following.",
    project=lambda self, x: (
        self.split(self.q_proj(x)),
        *(p(x).unflatten(-1, (self.head_dim, -1)).permute(0, 3, 1, 2)
          for p in (self.k_proj, self.v_proj)),
    ),
)  # fmt: skip
wrong(
    "The queries were made narrow too: q_proj must keep all H heads.",
    then=lambda self, D: setattr(self, "q_proj", nn.Linear(D, self.num_kv_heads * self.head_dim)),
    project=changed(lambda self, q, k, v: (self.share(q), k, v)),
)
wrong(
    "The query heads of a group are averaged; each asks its own question.",
    project=changed(
        lambda self, q, k, v: (self.share(q.unflatten(1, (k.size(1), -1)).mean(2)), k, v)
    ),
)
wrong(
    "One output is left for each group, and out_proj is narrower; all H heads belong into the output.",
    then=lambda self, D: setattr(self, "out_proj", nn.Linear(self.num_kv_heads * self.head_dim, D)),
    join=lambda self, heads: Projections.join(
        self, heads.unflatten(1, (self.num_kv_heads, -1)).mean(2)
    ),
)
wrong(
    "The heads of the output stand in strided order; head h keeps place h.",
    join=lambda self, heads: Projections.join(
        self, heads.unflatten(1, (self.num_kv_heads, -1)).transpose(1, 2).flatten(1, 2)
    ),
)
wrong(
    "The groups still stand before the positions when the heads are joined, so positions mix.",
    join=lambda self, heads: self.out_proj(
        heads.unflatten(1, (self.num_kv_heads, -1)).transpose(2, 3).reshape(
            len(heads), heads.size(2), -1)
    ),
)  # fmt: skip
wrong(
    "The heads are joined without a transpose, so positions mix.",
    join=lambda self, heads: self.out_proj(heads.reshape(len(heads), heads.size(2), -1)),
)
wrong(
    "The output projection is missing.", join=lambda self, heads: heads.transpose(1, 2).flatten(2)
)
wrong("k_proj and v_proj have lost their biases.", bias=False)
wrong(
    "One projection serves as key and as value; v_proj makes the values.",
    project=changed(lambda self, q, k, v: (q, k, k)),
)
wrong(
    "The scores are not divided by the square root of head_dim.",
    attend=attend_by(lambda self: 1.0),
)
wrong(
    "The scale uses the width of k_proj; it is the square root of head_dim, the width of one head.",
    attend=attend_by(lambda self: self.k_proj.out_features**-0.5),
)
wrong(
    "The scale uses embed_dim; it is the square root of head_dim.",
    attend=attend_by(lambda self: self.q_proj.out_features**-0.5),
)
wrong("is_causal is ignored.", forward=forward_by(lambda is_causal: False))
wrong(
    "The layer is causal even when it should not be: is_causal is False unless it is given.",
    forward=forward_by(lambda is_causal: True),
)
wrong(
    "is_causal is turned around: True means that position i reads positions 0 to i.",
    forward=forward_by(lambda is_causal: not is_causal),
)
wrong(
    "k_proj and v_proj make G heads, but forward still splits their outputs into H.",
    project=lambda self, x: tuple(
        p(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        for p in (self.q_proj, self.k_proj, self.v_proj)
    ),
    share=lambda self, x: x,
)
wrong(
    "The heads are split without a transpose, so each head holds several positions.",
    split=lambda self, x: x.reshape(len(x), -1, x.size(1), self.head_dim),
)
wrong(
    "All four projections have lost their biases.",
    bias=False,
    then=lambda self, D: (self.q_proj.register_parameter("bias", None),
                          self.out_proj.register_parameter("bias", None)),
)  # fmt: skip
wrong(
    "A tuple is returned; return the output alone.",
    forward=lambda self, x, is_causal=False: (Projections.forward(self, x, is_causal), None),
)
wrong("x is detached, so nothing before this layer can learn.",
      project=lambda self, x: Projections.project(self, x.detach()))  # fmt: skip
wrong(
    "The softmax runs over the queries; each query shares out its weight among the keys.",
    attend=lambda self, q, k, v, is_causal: (
        (q @ k.mT / self.head_dim**0.5).masked_fill(
            torch.ones(q.size(2), q.size(2)).triu(1).bool() & is_causal, -torch.inf
        ).softmax(-2) @ v
    ),
)  # fmt: skip
wrong(
    "Keys and values are detached, so k_proj and v_proj do not learn.",
    project=changed(lambda self, q, k, v: (q, k.detach(), v.detach())),
)


EXERCISE = Exercise(
    name="share_the_keys",
    answer="GroupedLayer",
    title="Share the keys",
    kind="Repair",
    points=3,
    difficulty=3,
    minutes=20,
    needs="sections 'The function' and 'What the source documents say' of chapter 6",
    judge=Shared(),
    hints=(
        "Print the shape of k_proj.weight for G = 8 and for G = 2. Which should differ?",
        "k_proj and v_proj make num_kv_heads heads of head_dim numbers: "
        "Linear(embed_dim, num_kv_heads * head_dim). Split their outputs into num_kv_heads heads.",
        "In forward, after the split: k and v are repeated with "
        "x.repeat_interleave(num_heads // num_kv_heads, dim=1); the rest may stay.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
