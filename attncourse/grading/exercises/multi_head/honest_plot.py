"""Exercise honest_plot: return the weights that made the output, not others."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from attncourse import spec
from attncourse.grading.exercise import Case, Exercise, Facts
from attncourse.grading.explain.asked import Asked
from attncourse.grading.explain.places import only_loud
from attncourse.grading.inputs import seeded
from attncourse.grading.layers_judge import LayerRecipe, Layers, draw, far_apart, merge, split
from attncourse.grading.recipe import Given

SIZES = (
    ("", (18, 3, 0.4), (2, 5), 1), ("", (10, 2, 0.1), (3, 4), 1), ("", (6, 1, 0.5), (1, 3), 2),
    (", scores near 2**27 and -2**27", (4, 4, 0.2), (1, 5), far_apart),
)  # fmt: skip
BATCH, N, CALLS, COPIES = 2, 7, 3, 16  # enough draws that no honest dropout is far off
MASKS = ("training, with a mask: ", "training, without a mask: ")
WHOLE = "training, one token: each value is dropped whole"
MAKES, RIGHTS = "the weights make the output", "the weights are right"
DRAWS = "training, many calls: each weight is dropped on its own, with probability p"
MODE = "forward leaves the mode of the layer as it is"
NAMES = *(name + fact for name in MASKS for fact in (MAKES, RIGHTS)), WHOLE, DRAWS, MODE
OTHERS = (
    "The returned weights are not those that made the output: they come from another draw, or from "
    "before dropout, or dropout acts behind them."
)
BEHIND = "Dropout acts on the values, the heads or the output; it is for the weights."
NOTHING = "No weight is dropped: dropout is gone, or it acts on something else than the weights."


def parts(layer, embed_dim, num_heads, dropout):
    layer.num_heads = num_heads
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        layer.add_module(name, nn.Linear(embed_dim, embed_dim))
    layer.dropout = nn.Dropout(dropout)


def given(layer, x, mask=None):
    projections = layer.q_proj, layer.k_proj, layer.v_proj
    return Given(*(split(p(x), layer.num_heads) for p in projections), mask, rest=layer)


def answer(output, weights, scores, x):
    return x.rest.out_proj(merge(output)), weights


RIGHT = LayerRecipe(given, parts=parts, finish=lambda w, x: x.rest.dropout(w), answer=answer)


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


def in_training(built, seed: int) -> Iterator[tuple[str, Any]]:
    """What a layer shows whose out_proj hands the heads through."""
    heads, head_dim, p = torch.randint(2, 5, (3,), generator=seeded(seed, "training")).tolist()
    width, p = heads * head_dim, 0.2 + p / 20
    layer, own = built(width, heads, p), RIGHT(width, heads, p)
    known = {k: draw(k, tuple(x.shape), seed, "training") for k, x in layer.named_parameters()}
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
        makes = torch.allclose(made, output, atol=1e-3)
        yield what + MAKES, makes or OTHERS
        yield what + RIGHTS, judge_weights(weights, true, p)
    with torch.no_grad():
        dropped = [layer.train()(x.repeat(COPIES, 1, 1))[1] == 0 for _ in range(CALLS)]
        alone = layer.train()(x[:1, :1].repeat(COPIES, 1, 1))[0].unflatten(-1, (heads, -1)) == 0
    whole = torch.equal(alone.all(-1), alone.any(-1))
    yield WHOLE, whole or BEHIND
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
        "A hidden key has a weight: is the mask used, and does dropout put in 0?": (
            weights[true == 0] != 0
        ).any(),
        NOTHING: close(true),
        "The kept weights are not enlarged by 1 / (1 - p).": close(kept),
        "Rows are scaled to sum 1 after dropout; leave them as they are.": close(
            F.normalize(kept, p=1, dim=-1)
        ),
    }
    found = weights[weights != 0] / true[weights != 0]
    if found.numel() and found.std() < 1e-3 and found.mean() > 1:
        looks["Another share of the weights is dropped than self.dropout.p says; use it."] = (
            abs(1 - 1 / found.mean() - p) > 1e-3
        )
    looks["The kept weights are not softmax / (1 - p), with the p of self.dropout."] = not close(
        kept / (1 - p)
    )
    return next((words for words, fits in looks.items() if fits), True)


def judge_draws(dropped, p: float):
    """Over many draws: are weights dropped together, and how many of them?

    Means of n independent draws vary as p (1 - p) / n; n times as much where all n are one draw.
    """
    rate = dropped.mean().item()
    if rate in (0, 1):
        return "Everything is dropped." if rate else NOTHING
    together, axes = [], ("calls", "samples", "heads", "queries", "keys")
    for k, (axis, n) in enumerate(zip(axes, dropped.shape, strict=True)):
        ratio = dropped.mean(k).var().item() * n / (rate * (1 - rate))
        together += [axis] * (not 0.5 < ratio < 1 + (n - 1) / 4)
    if together:
        along = " and ".join(together)
        return f"Weights are dropped together, along {along}; drop each on its own."
    if abs(rate - 1 + p) < 0.04:
        return "The weights are kept with probability p; drop with p."
    return abs(rate - p) < 0.04 or f"{rate:.2f} of the weights are dropped, and {p:.2f} should be."


def of_training(asked: Asked) -> str:
    """What a layer does in training, where all is right in evaluation."""
    if asked.seen.get(MODE, True) is not True:
        return "forward switches the layer to another mode; leave the mode to the caller."
    told = [asked.seen.get(fact, True) for fact in NAMES]
    return "" if asked.wrong or asked.raised else next((x for x in told if x is not True), "")


def unmasked(x):
    """The weights that no mask and no dropout has changed."""
    return (x.query @ x.key.mT * x.width**-0.5).softmax(-1)


def returning(says, change):
    """The mistake that returns other weights than those that made the output."""
    return RIGHT.but(says, answer=lambda o, w, s, x: answer(o, change(w, s, x), s, x))


EXERCISE = Exercise(
    name="honest_plot",
    answer="HonestAttention",
    judge=Layers(
        Definition,
        "embed_dim num_heads dropout",
        SIZES,
        drawn=lambda h, d, _: (h * d, h, 0.3),
        calls=lambda n, seed: [Case(", with a mask", (mask_of(n, seed),)), Case("", ())],
        also=Facts(in_training, NAMES),
    ),
    right=RIGHT,
    explain=(of_training, only_loud),
    axes=("b n d", "b h n m"),
    results=("the output", "the weights"),
    asks_for="layer",
    measures=("gradients", "parameters"),
    ideas=[
        returning(
            "The plotted weights are computed again, without mask and dropout.",
            lambda w, s, x: unmasked(x),
        ),
        returning(
            "The returned weights do not know the mask.",
            lambda w, s, x: x.rest.dropout(unmasked(x)),
        ),
        returning(
            "The weights are returned before dropout; they did not make the output.",
            lambda w, s, x: s.softmax(-1),
        ),
        returning(
            "Dropout is drawn twice; return the draw that was used.",
            lambda w, s, x: x.rest.dropout(s.softmax(-1)),
        ),
        RIGHT.but("Dropout is gone; the layer must still train as it did.", finish=lambda w, x: w),
        RIGHT.but(
            "The heads are merged without a transpose, so positions mix.",
            answer=lambda o, w, s, x: (x.rest.out_proj(o.reshape(len(o), o.size(2), -1)), w),
        ),
    ],
)
