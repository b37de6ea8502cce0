"""Exercise honest_plot: return the weights that made the output, not others."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from attncourse import spec
from attncourse.grading.compare import Raised
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.families import gradients, masks, mistakes_of, softmaxes, weights
from attncourse.grading.layers_judge import (
    LayerRecipe,
    Layers,
    draw,
    far_apart,
    generator,
    merge,
    split,
)
from attncourse.grading.observe import Case, run
from attncourse.grading.recipe import Given, hide

SIZES = (
    ("", (18, 3, 0.4), (2, 5), 1), ("", (10, 2, 0.1), (3, 4), 1), ("", (6, 1, 0.5), (1, 3), 2),
    (", scores near 2**22 and -2**22", (4, 4, 0.2), (1, 5), far_apart),
)  # fmt: skip
BATCH, N, CALLS, COPIES = 2, 7, 3, 16  # enough draws that no honest dropout is far off
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


def parts(layer, embed_dim, num_heads, dropout):
    layer.num_heads = num_heads
    for name in PROJECTIONS:
        layer.add_module(name, nn.Linear(embed_dim, embed_dim))
    layer.dropout = nn.Dropout(dropout)


def given(layer, x, mask=None, split=split):
    q, k, v = (split(layer.get_submodule(p)(x), layer.num_heads) for p in PROJECTIONS[:3])
    return Given(q, k, v, mask, rest=layer)


RIGHT = LayerRecipe(
    given,
    parts=parts,
    finish=lambda w, x: x.rest.dropout(w),
    answer=lambda o, w, s, x: (x.rest.out_proj(merge(o)), w),
)


class Definition(RIGHT.layer):
    """The loops of the course, in evaluation."""

    def forward(self, x, mask=None):
        params = {name: p.double() for name, p in self.named_parameters()}
        return spec.multi_head_attention(*[x.double()] * 3, params, self.num_heads, mask)


def mask_of(n: int, seed: int) -> torch.Tensor:
    """In each row one key is hidden and one is visible; in row 1, key 0 only."""
    own = torch.eye(n, dtype=torch.bool)
    mask = (torch.rand(n, n, generator=generator("mask", seed)) < 0.5) & ~own | own.roll(1, 0)
    mask[1, 1:] = False
    return mask


EVALUATION = Layers(
    Definition, "embed_dim num_heads dropout", SIZES, drawn=lambda h, d, _: (h * d, h, 0.3),
    calls=lambda n, seed: [Case(", with a mask", (mask_of(n, seed),)), Case("", ())],
)  # fmt: skip
MASKS = ("training, with a mask: ", "training, without a mask: ")
PAIR = ("the weights make the output", "the weights are right", "gradients arrive")
WHOLE = "training: values are dropped whole"
DRAWS = "training, many calls: each weight is dropped on its own, with probability p"
MODE = "forward leaves the mode of the layer as it is"


@dataclass(frozen=True)
class Honest:
    """Judges the layer in evaluation like `Layers`; in training, whether output and weights belong together."""

    evaluation: Layers

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        if isinstance(answer, nn.Module):
            yield from self.evaluation.observe(answer, seed)
            return
        layers = []

        def evaluating(*sizes):
            layers.append(answer(*sizes).eval())
            return layers[-1]

        yield from self.evaluation.observe(evaluating, seed)
        switched = {1 for layer in layers for part in layer.modules() if part.training}
        seen = run(in_training, answer, seed, switched)
        yield from ({WHOLE: seen} if isinstance(seen, Raised) else seen).items()
        says = {-1: "it switches to evaluation", 1: "it switches to training"}
        yield MODE, " and ".join(says[step] for step in sorted(switched)) or True

    def expected(self, seed: int) -> dict[str, Any]:
        named = [name + what for name in MASKS for what in PAIR]
        return self.evaluation.expected(seed) | dict.fromkeys([*named, WHOLE, DRAWS, MODE], True)


def in_training(answer, seed: int, switched: set[int]) -> dict:
    """What a layer shows whose out_proj hands the heads through; ``switched`` hears of other modes."""
    heads, head_dim, p = torch.randint(2, 5, (3,), generator=generator("sizes", seed)).tolist()
    width, p = heads * head_dim, 0.2 + p / 20
    layer = answer(width, heads, p)
    known = {name: draw(name, tuple(x.shape), seed) for name, x in layer.named_parameters()}
    known |= {"out_proj.weight": torch.eye(width), "out_proj.bias": torch.zeros(width)}
    layer.load_state_dict(known, strict=False)
    x, mask, seen = 2 * draw("x", (BATCH, N, width), seed), mask_of(N, seed), {}
    query, key, value = (
        split(F.linear(x, known[f"{name}.weight"], known[f"{name}.bias"]), heads)
        for name in PROJECTIONS[:3]
    )
    for name, args in zip(MASKS, ((mask,), ()), strict=True):
        scores = query @ key.mT / head_dim**0.5
        true = hide(scores, Given(query, key, value, *args)).softmax(-1)
        torch.default_generator.manual_seed(seed)
        output, weights = layer.train()(x.clone(), *(mask.clone() for mask in args))
        switched |= {-1 for part in layer.modules() if not part.training}
        made = merge(weights.detach().float() @ value)
        facts = (
            torch.allclose(made, output.float(), rtol=1e-3, atol=1e-3),
            judge_weights(weights.detach().float(), true, p),
            gradients_arrive(output, layer),
        )
        seen |= {name + what: fact for what, fact in zip(PAIR, facts, strict=True)}
    with torch.no_grad():
        alone = layer.train()(x[:1, :1].repeat(COPIES, 1, 1))[0].unflatten(-1, (heads, -1)) == 0
        dropped = [layer.train()(x.repeat(COPIES, 1, 1))[1] == 0 for _ in range(CALLS)]
    whole = bool((alone.all(-1) | ~alone.any(-1)).all()) or "single numbers of the values are 0"
    if (output == 0).double().mean().item() > 0.05:
        whole = "single numbers of the output are 0"
    return seen | {WHOLE: whole, DRAWS: judge_draws(torch.stack(dropped).double(), p)}


def gradients_arrive(output, layer):
    """True when the output teaches all four projections, else which of them learn nothing."""
    wanted = [layer.get_submodule(name).weight for name in PROJECTIONS]
    if not output.requires_grad:
        return "none at all"
    grads = torch.autograd.grad(output.square().sum(), wanted, allow_unused=True)
    pairs = zip(PROJECTIONS, grads, strict=True)
    lost = [name for name, g in pairs if g is None or g.abs().max() <= 1e-6]
    return f"none reaches {' and '.join(lost)}" if lost else True


def judge_weights(weights, true, p: float):
    """True for the softmax of the visible scores with some of it 0 and the rest enlarged."""
    close = partial(torch.allclose, weights, atol=1e-4)
    kept = torch.where(weights == 0, 0.0, true)
    if (weights[true == 0] != 0).any():
        return "hidden keys have a weight"
    if not (weights[true > 0] == 0).any():
        return "nothing is dropped" if close(kept) else "no"
    if close(kept):
        return "the kept weights are not enlarged"
    if torch.allclose(weights.sum(-1), torch.ones(())):
        return "the rows sum to 1 again"
    return close(kept / (1 - p)) or "too large or too small"


def judge_draws(dropped, p: float):
    """Over many draws: are weights dropped together, and how many of them?

    The means along an axis of n independent draws vary as p (1 - p) / n; n times as much where all n
    are one draw.
    """
    rate = dropped.mean().item()
    if rate in (0, 1):
        return f"{'everything' if rate else 'nothing'} is dropped"
    axes = dict(enumerate(("calls", "samples", "heads", "queries", "keys")))
    spread = rate * (1 - rate)
    ratios = {k: dropped.mean(k).var().item() * dropped.size(k) / spread for k in axes}
    alike = [axes[k] for k, ratio in ratios.items() if ratio > 1 + (dropped.size(k) - 1) / 4]
    if alike:
        return f"one draw serves all {' and '.join(alike)}"
    if min(ratios.values()) < 0.5:
        return "always the same number is dropped"
    if abs(rate - p) < 0.04:
        return True
    if abs(rate - 1 + p) < 0.04:
        return "as many are dropped as should be kept"
    return f"too {'many' if rate > p else 'few'} are dropped"


def scores(layer, x, mask=None):
    made = given(layer, x, mask)
    return hide(made.query @ made.key.mT / made.width**0.5, made)


def mix(layer, weights, x):
    return layer.out_proj(merge(weights @ split(layer.v_proj(x), layer.num_heads)))


ACCEPTED = Accepted(DroppedOnceAndReturned=RIGHT.layer)


@ACCEPTED.add
class DetachedForThePlot(RIGHT.layer):
    def forward(self, x, mask=None):
        weights = F.dropout(scores(self, x, mask).softmax(-1), self.dropout.p, self.training)
        return [mix(self, weights, x), weights.detach().clone()]


@ACCEPTED.add
class LargeNegative(RIGHT.layer):
    def forward(self, x, mask=None):
        hidden = 0.0 if mask is None else torch.where(mask, 0.0, -1e9)
        weights = self.dropout(torch.softmax(scores(self, x) + hidden, dim=-1))
        return mix(self, weights, x), weights


@ACCEPTED.add
class HeadByHead(RIGHT.layer):
    def forward(self, x, mask=None):
        v = split(self.v_proj(x), self.num_heads).unbind(1)
        weights = [self.dropout(s.softmax(dim=-1)) for s in scores(self, x, mask).unbind(1)]
        heads = [w @ vh for w, vh in zip(weights, v, strict=True)]
        return self.out_proj(torch.cat(heads, dim=-1)), torch.stack(weights, dim=1)


@ACCEPTED.add
class FusedWithIdentityValues(RIGHT.layer):
    def forward(self, x, mask=None):
        q, k = (split(p(x), self.num_heads) for p in (self.q_proj, self.k_proj))
        one = torch.eye(x.size(1)).expand(*q.shape[:2], -1, -1)
        p = self.dropout.p if self.training else 0.0
        weights = F.scaled_dot_product_attention(q, k, one, attn_mask=mask, dropout_p=p)
        return mix(self, weights, x), weights


@ACCEPTED.add
class OwnDropout(RIGHT.layer):
    def forward(self, x, mask=None):
        s = scores(self, x, mask)
        exponentials = torch.exp(s - s.amax(dim=-1, keepdim=True))
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        if self.training:
            keep = torch.rand_like(weights) >= self.dropout.p
            weights = weights * keep / (1 - self.dropout.p)
        return mix(self, weights, x), weights


def unmasked(x):
    """The weights that no mask and no dropout has changed."""
    return (x.query @ x.key.mT * x.width**-0.5).softmax(-1)


def returned(change):
    """The answer with other weights; ``change`` gets them, the scores and the `Given`."""
    return {"answer": lambda o, w, s, x: (RIGHT.answer(o, w, s, x)[0], change(w, s, x))}


def dropped(change):
    """In training, ``change(weights, p)`` instead of dropout."""
    return {"finish": lambda w, x: change(w, x.rest.dropout.p) if x.rest.training else w}


def together(axis):
    """Dropout that falls alike on all of an axis."""
    return dropped(lambda w, p: w * F.dropout(torch.ones_like(w).narrow(axis, 0, 1), p))


MISTAKES = Mistakes(mistakes_of(
    RIGHT, masks, weights, gradients, softmaxes, without=("weights returned detached", "overflow in float64"),
))  # fmt: skip
MISTAKES += [RIGHT.but(says, **steps) for says, steps in (
    ("The plotted weights are computed again, without mask and dropout, as in the code as found.",
     returned(lambda w, s, x: unmasked(x))),
    ("The returned weights do not know the mask.", returned(lambda w, s, x: x.rest.dropout(unmasked(x)))),
    ("The weights are returned before dropout; while training they did not make the output.",
     returned(lambda w, s, x: s.softmax(-1))),
    ("Dropout is drawn twice: the returned weights are another draw than those that were used.",
     returned(lambda w, s, x: x.rest.dropout(s.softmax(-1)))),
    ("The weights of one head and sample only are returned; return (batch, heads, n, n).",
     returned(lambda w, s, x: w[0, 0])),
    ("Dropout is always on; it belongs to training only (self.dropout knows the mode).",
     {"finish": lambda w, x: F.dropout(w, x.rest.dropout.p)}),
    ("Dropout is gone; the layer must still train as it did.", {"finish": lambda w, x: w}),
    ("The rows are scaled to sum 1 again after dropout; return the weights as they were used.",
     {"finish": lambda w, x: F.normalize(x.rest.dropout(w), p=1, dim=-1)}),
    ("Dropout acts on the scores, before the softmax; it belongs on the weights.",
     {"mask": lambda s, x: hide(x.rest.dropout(s), x), "finish": lambda w, x: w}),
    ("Dropout acts on x; it belongs on the weights.",
     {"given": lambda layer, x, mask=None: given(layer, layer.dropout(x), mask), "finish": lambda w, x: w}),
    ("Dropout acts on the values; it belongs on the weights.",
     {"finish": lambda w, x: w, "mix": lambda w, x: w @ x.rest.dropout(x.value)}),
    ("Weights are dropped only where there is a mask; drop them without one, too.",
     {"finish": lambda w, x: w if x.visible is None else x.rest.dropout(w)}),
    ("A seed is set in forward, so every call drops the same weights; leave the draws to dropout.",
     {"finish": lambda w, x: x.rest.dropout(w) if torch.default_generator.manual_seed(0) else w}),
    ("The output projection is missing; self.mix has it.", {"answer": lambda o, w, s, x: (merge(o), w)}),
    ("Dropout acts on the merged heads or on the output; it belongs on the weights.",
     {"finish": lambda w, x: w, "answer": lambda o, w, s, x: (x.rest.out_proj(x.rest.dropout(merge(o))), w)}),
    ("Hidden scores become a small number, which leaves them a weight; fill in -inf.",
     {"mask": partial(hide, fill=-5.0)}),
    ("The mask is inverted in place, which changes the caller's tensor.",
     {"mask": lambda s, x: s if x.visible is None else s.masked_fill(x.visible.logical_not_(), -torch.inf)}),
    ("The mask is transposed: its rows are queries, its columns keys.",
     {"given": lambda layer, x, mask=None: given(layer, x, mask if mask is None else mask.T)}),
    ("The sizes of the example are built in; take them from the layer and from x.",
     {"given": partial(given, split=lambda x, h: x.view(*x.shape[:2], 3, 4).transpose(1, 2))}),
    ("The scale is that of the example, sqrt(4); it is sqrt(head_dim).", {"scale": lambda x: 0.5}),
    ("forward switches the layer to evaluation; leave the mode to the caller.",
     {"given": lambda layer, *args: given(layer.eval(), *args)}),
    ("forward switches the layer to training; leave the mode to the caller.",
     {"given": lambda layer, *args: given(layer.train(), *args)}),
    ("forward switches the layer to evaluation and then to training; leave the mode to the caller.",
     {"given": lambda layer, *args: given(layer.eval(), *args), "finish": lambda w, x: x.rest.train() and w}),
    ("The dropped weights are not enlarged by 1 / (1 - p).", dropped(lambda w, p: F.dropout(w, p) * (1 - p))),
    ("Whole maps are dropped, as dropout2d does; drop each weight on its own.", dropped(F.dropout2d)),
    ("All heads lose the same weights; drop in each head on its own.", together(1)),
    ("All samples lose the same weights; drop in each sample on its own.", together(0)),
    ("Whole rows are dropped, all keys of a query; drop each weight on its own.", together(3)),
    ("Whole keys are dropped, for all queries; drop each weight on its own.", together(2)),
    ("Kept with probability p, and enlarged as if dropped with it; p is the probability to drop.",
     dropped(lambda w, p: w * (torch.rand_like(w) < p) / (1 - p))),
    ("The weights are kept with probability p; p is the probability to drop.",
     dropped(lambda w, p: F.dropout(w, 1 - p))),
    ("Fewer weights are dropped than self.dropout.p says; use self.dropout.",
     dropped(lambda w, p: F.dropout(w, 0.1))),
    ("More weights are dropped than self.dropout.p says; use self.dropout.",
     dropped(lambda w, p: F.dropout(w, 0.5))),
)]  # fmt: skip
MISTAKES += [Mistake("Pass the class, not an instance.", RIGHT(6, 2, 0.1))]

EXERCISE = Exercise(
    name="honest_plot", answer="HonestAttention", title="Plot the weights that were used", kind="Repair",
    points=2, difficulty=3, minutes=15, needs="section 'Where it breaks' of chapter 3",
    judge=Honest(EVALUATION), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "There is one moment at which the weights are exactly those that meet the values.",
        "Give a name to what self.dropout returns. Use it for the output, and return it.",
        "weights = self.dropout(torch.softmax(self.scores(x, mask), dim=-1)); "
        "return self.mix(weights, x), weights",
    ),
)  # fmt: skip
