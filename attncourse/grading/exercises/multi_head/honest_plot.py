"""Exercise honest_plot: return the weights that made the output, not others."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Facts, Mistake, Mistakes
from attncourse.grading.exercises.multi_head import merge_heads
from attncourse.grading.exercises.multi_head.head_dim import PROJECTIONS, ClassFacts, merge, split
from attncourse.grading.inputs import seeded
from attncourse.grading.layers_judge import LayerRecipe, Layers, draw, far_apart
from attncourse.grading.mistakes import (
    gradients,
    masks,
    mistakes_of,
    scales,
    softmaxes,
    weights,
)
from attncourse.grading.noticing import weights_of
from attncourse.grading.recipe import Given, hide

SIZES = (
    ("", (18, 3, 0.4), (2, 5), 1), ("", (10, 2, 0.1), (3, 4), 1), ("", (6, 1, 0.5), (1, 3), 2),
    (", scores near 2**27 and -2**27", (4, 4, 0.2), (1, 5), far_apart),
)  # fmt: skip
BATCH, N, CALLS, COPIES = 2, 7, 3, 16  # enough draws that no honest dropout is far off


def parts(layer, embed_dim, num_heads, dropout):
    layer.num_heads = num_heads
    for name in PROJECTIONS:
        layer.add_module(name, nn.Linear(embed_dim, embed_dim))
    layer.dropout = nn.Dropout(dropout)


def given(layer, x, mask=None, split=split):
    q, k, v = (split(layer.get_submodule(p)(x), layer.num_heads) for p in PROJECTIONS[:3])
    return Given(q, k, v, mask, rest=layer)


RIGHT = LayerRecipe(
    given, parts=parts, finish=lambda w, x: x.rest.dropout(w),
    answer=lambda o, w, s, x: (x.rest.out_proj(merge(o)), w),
)  # fmt: skip


class Definition(RIGHT.layer):
    """The loops of the course, in evaluation."""

    def forward(self, x, mask=None):
        params = {name: p.double() for name, p in self.named_parameters()}
        return spec.multi_head_attention(*[x.double()] * 3, params, self.num_heads, mask)


def mask_of(n: int, seed: int) -> torch.Tensor:
    """In each row one key is hidden and one is visible; in row 1, key 0 only."""
    own = torch.eye(n, dtype=torch.bool)
    mask = (torch.rand(n, n, generator=seeded(seed, "mask", n)) < 0.5) & ~own | own.roll(1, 0)
    mask[1, 1:] = False
    return mask


EVALUATION = Layers(
    Definition, "embed_dim num_heads dropout", SIZES, drawn=lambda h, d, _: (h * d, h, 0.3),
    calls=lambda n, seed: [Case(", with a mask", (mask_of(n, seed),)), Case("", ())],
)  # fmt: skip
MASKS = ("training, with a mask: ", "training, without a mask: ")
WHOLE = "training, one token: each value is dropped whole"
MAKES, RIGHTS = "the weights make the output", "the weights are right"
DRAWS = "training, many calls: each weight is dropped on its own, with probability p"
MODE = "forward leaves the mode of the layer as it is"


def in_training(answer, seed: int) -> Iterator[tuple[str, Any]]:
    """What a layer shows whose out_proj hands the heads through."""
    heads, head_dim, p = torch.randint(2, 5, (3,), generator=seeded(seed, "training")).tolist()
    width, p = heads * head_dim, 0.2 + p / 20
    layer, own = answer(width, heads, p), RIGHT(width, heads, p)
    known = {
        name: draw(name, tuple(x.shape), seed, "training") for name, x in layer.named_parameters()
    }
    known |= {"out_proj.weight": torch.eye(width), "out_proj.bias": torch.zeros(width)}
    for each in (layer, own):
        each.load_state_dict(known, strict=False)
    x = 2 * draw("x", (BATCH, N, width), seed, "training")
    for what, mask in zip(MASKS, ([mask_of(N, seed)], []), strict=True):
        true = own.eval()(x, *mask)[1].detach()
        torch.set_rng_state(seeded(seed, "dropout").get_state())
        result = layer.train()(x.clone(), *(m.clone() for m in mask))
        output, weights = (part.detach().float() for part in result)
        made = merge(weights @ given(own, x).value)
        yield what + MAKES, torch.allclose(made, output, atol=1e-3)
        yield what + RIGHTS, judge_weights(weights, true, p)
    with torch.no_grad():
        dropped = [layer.train()(x.repeat(COPIES, 1, 1))[1] == 0 for _ in range(CALLS)]
        alone = layer.train()(x[:1, :1].repeat(COPIES, 1, 1))[0].unflatten(-1, (heads, -1)) == 0
    yield WHOLE, torch.equal(alone.all(-1), alone.any(-1))
    yield DRAWS, judge_draws(torch.stack(dropped).double(), p)
    switched = []
    for mode, name in (True, "training"), (False, "evaluation"):
        layer.train(mode)(x)
        switched += [f"not in {name}"] * any(part.training != mode for part in layer.modules())
    yield MODE, " and ".join(switched) or True


def judge_weights(weights, true, p: float):
    """True for the softmax of the visible scores with some of it 0 and the rest enlarged."""
    kept = torch.where(weights == 0, 0.0, true)
    close = partial(torch.allclose, weights, atol=1e-4)
    looks = {
        "hidden keys have a weight": (weights[true == 0] != 0).any(),
        "nothing is dropped": close(true),
        "the kept weights are not enlarged": close(kept),
        "the rows sum to 1 again": close(F.normalize(kept, p=1, dim=-1)),
        "they are too large or too small": not close(kept / (1 - p)),
    }
    return next((words for words, fits in looks.items() if fits), True)


def judge_draws(dropped, p: float):
    """Over many draws: are weights dropped together, and how many of them?

    Means of n independent draws vary as p (1 - p) / n; n times as much where all n are one draw.
    """
    rate = dropped.mean().item()
    if rate in (0, 1):
        return f"{'everything' if rate else 'nothing'} is dropped"
    together, axes = [], ("calls", "samples", "heads", "queries", "keys")
    for k, (axis, n) in enumerate(zip(axes, dropped.shape, strict=True)):
        ratio = dropped.mean(k).var().item() * n / (rate * (1 - rate))
        together += [axis] * (not 0.5 < ratio < 1 + (n - 1) / 4)
    if together:
        return f"the draws depend on each other along {' and '.join(together)}"
    if abs(rate - 1 + p) < 0.04:
        return "as many are dropped as should be kept"
    return abs(rate - p) < 0.04 or f"too {'many' if rate > p else 'few'} are dropped"


NAMES = *(name + fact for name in MASKS for fact in (MAKES, RIGHTS)), WHOLE, DRAWS, MODE
JUDGE = ClassFacts(
    EVALUATION,
    Facts(in_training, NAMES),
    prepare=nn.Module.eval,
    look=weights_of("outputs", behind="the values, how heads are put together, or out_proj"),
)
ACCEPTED = Accepted(
    DroppedOnceAndReturned=RIGHT.layer,
    LargeNegative=replace(RIGHT, mask=partial(hide, fill=-1e9)).layer,
    DetachedForThePlot=replace(
        RIGHT, answer=lambda o, w, s, x: [x.rest.out_proj(merge(o)), w.detach().clone()]).layer,
    OwnDropout=replace(RIGHT, finish=lambda w, x: w if not x.rest.training else (
        w * (torch.rand_like(w) >= x.rest.dropout.p) / (1 - x.rest.dropout.p))).layer,
)  # fmt: skip


@ACCEPTED.add
class HeadByHead(RIGHT.layer):
    def forward(self, x, mask=None):
        outputs, maps = [], []
        for q, k, v in zip(*(part.unbind(1) for part in given(self, x)[:3]), strict=True):
            scores = q @ k.mT / q.size(-1) ** 0.5
            hidden = scores if mask is None else torch.where(mask, scores, -torch.inf)
            maps.append(self.dropout(hidden.softmax(dim=-1)))
            outputs.append(maps[-1] @ v)
        return self.out_proj(torch.cat(outputs, dim=-1)), torch.stack(maps, dim=1)


@ACCEPTED.add
class FusedWithIdentityValues(RIGHT.layer):
    def forward(self, x, mask=None):
        q, k, v = given(self, x)[:3]
        one, p = torch.eye(x.size(1)).expand(*q.shape[:2], -1, -1), self.dropout.p * self.training
        weights = F.scaled_dot_product_attention(q, k, one, attn_mask=mask, dropout_p=p)
        return self.out_proj(merge(weights @ v)), weights


def unmasked(x):
    """The weights that no mask and no dropout has changed."""
    return (x.query @ x.key.mT * x.width**-0.5).softmax(-1)


def alike_along(axis):
    return lambda w, p: w * F.dropout(torch.ones_like(w).narrow(axis, 0, 1), p)


def single(mistakes):
    """Without their steps, so that they are made alone: two at once would be many here."""
    return [Mistake(x.says, x.answer) for x in mistakes]


def switching(mode):
    return lambda layer, *args: given(layer.train(mode), *args)


MISTAKES = Mistakes(mistakes_of(RIGHT, masks, weights, without=("weights returned detached",)))
MISTAKES += single([
    *mistakes_of(RIGHT, gradients, softmaxes, without=("overflow in float64",)),
    *mistakes_of(RIGHT, scales, without=("scaled by values", "scaled by queries")),
    *(Mistake(x.says, replace(RIGHT, answer=lambda o, w, s, x, put=x.answer: (x.rest.out_proj(put(o)), w)))
      for x in merge_heads.SHARED[:1] + merge_heads.SHARED[2:]),
    Mistake("Pass the class, not an instance.", RIGHT(6, 2, 0.1)),
    *(RIGHT.but(says, answer=lambda o, w, s, x, f=change: (RIGHT.answer(o, w, s, x)[0], f(w, s, x)))
      for says, change in (
        ("The plotted weights are computed again, without mask and dropout.", lambda w, s, x: unmasked(x)),
        ("The returned weights do not know the mask.", lambda w, s, x: x.rest.dropout(unmasked(x))),
        ("The weights are returned before dropout; they did not make the output.", lambda w, s, x: s.softmax(-1)),
        ("Dropout is drawn twice; return the draw that was used.", lambda w, s, x: x.rest.dropout(s.softmax(-1))),
        ("The weights of one head and sample only are returned; return all of them.", lambda w, s, x: w[0, 0]),
    )),
    *(RIGHT.but(says, finish=finish) for says, finish in (
        ("Dropout is always on; it belongs to training only.", lambda w, x: F.dropout(w, x.rest.dropout.p)),
        ("Dropout is gone; the layer must still train as it did.", lambda w, x: w),
        ("Rows are scaled to sum 1 after dropout.", lambda w, x: F.normalize(x.rest.dropout(w), p=1, dim=-1)),
    )),
    *(RIGHT.but(says, **{"finish": lambda w, x: w} | steps) for says, steps in (
        ("Dropout acts on the scores; it is for the weights.", {"mask": lambda s, x: hide(x.rest.dropout(s), x)}),
        *(("Dropout acts on the values, the heads or the output; it is for the weights.", steps) for steps in (
            {"mix": lambda w, x: w @ x.rest.dropout(x.value)}, {"mix": lambda w, x: x.rest.dropout(w @ x.value)},
            {"answer": lambda o, w, s, x: (x.rest.dropout(x.rest.out_proj(merge(o))), w)})),
    )),
    *(RIGHT.but(says, finish=lambda w, x, f=change: f(w, x.rest.dropout.p) if x.rest.training else w)
      for says, change in (
        ("The dropped weights are not enlarged by 1 / (1 - p).", lambda w, p: F.dropout(w, p) * (1 - p)),
        ("Whole maps are dropped, as dropout2d does; drop each weight on its own.", F.dropout2d),
        ("All heads lose the same weights; drop in each head on its own.", alike_along(1)),
        ("All samples lose the same weights; drop in each sample on its own.", alike_along(0)),
        ("Whole rows are dropped, all keys of a query; drop each weight on its own.", alike_along(3)),
        ("Whole keys are dropped, for all queries; drop each weight on its own.", alike_along(2)),
        ("Kept with probability p, enlarged as if dropped.", lambda w, p: w * (torch.rand_like(w) < p) / (1 - p)),
        ("The weights are kept with probability p; drop with p.", lambda w, p: F.dropout(w, 1 - p)),
        ("Fewer weights are dropped than self.dropout.p says; use it.", lambda w, p: F.dropout(w, 0.1)),
        ("More weights are dropped than self.dropout.p says; use it.", lambda w, p: F.dropout(w, 0.5)),
    )),
    *(RIGHT.but(says, given=wrong) for says, wrong in (
        ("The mask is transposed: its rows are queries, its columns keys.",
         lambda layer, x, *mask: given(layer, x, *(m.T for m in mask))),
        ("The sizes of the example are built in; take them from the layer and from x.",
         partial(given, split=lambda x, h: x.view(*x.shape[:2], 3, 4).transpose(1, 2))),
        ("forward switches the layer to evaluation; leave the mode to the caller.", switching(False)),
        ("forward switches the layer to training; leave the mode to the caller.", switching(True)),
    )),
    RIGHT.but("forward switches the layer to evaluation and then to training; leave the mode to the caller.",
              given=switching(False), finish=lambda w, x: x.rest.train() and w),
    RIGHT.but("The scale is that of the example, sqrt(4); it is sqrt(head_dim).", scale=lambda x: 0.5),
    RIGHT.but("Hidden scores become a small number; fill in -inf.", mask=partial(hide, fill=-5.0)),
    RIGHT.but("The mask is inverted in place, which changes the caller's tensor.",
              mask=lambda s, x: s if x.visible is None else s.masked_fill(x.visible.logical_not_(), -torch.inf)),
])  # fmt: skip

EXERCISE = Exercise(
    name="honest_plot", answer="HonestAttention", judge=JUDGE, accepted=ACCEPTED, mistakes=MISTAKES
)
