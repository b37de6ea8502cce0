"""Exercise honest_plot: return the weights that made the output, not others."""

import math

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.dropped import drawn_alone, kept
from attncourse.grading.exercise import Case, Exercise, Facts, Raised, run, seeded
from attncourse.grading.heads import merge, split
from attncourse.grading.layers_judge import Layers, draw, far_apart

SIZES = (
    ("", (18, 3, 0.4), (2, 5), 1), ("", (10, 2, 0.1), (3, 4), 1), ("", (6, 1, 0.5), (1, 3), 2),
    (", scores near 2**27 and -2**27", (4, 4, 0.2), (1, 5), far_apart),
)  # fmt: skip
BATCH, N, CALLS, COPIES = 2, 7, 3, 16  # enough draws that no honest dropout is far off
MODE = "forward leaves the mode of the layer as it is"
WITH_MASK = "training, with a mask: the weights make the output, and are the right ones"
WITHOUT = "training, without a mask: the weights make the output, and are the right ones"
DRAWS = "training, many calls: each weight is dropped on its own, with probability p"
OTHERS = "Returned weights did not make the output: is there a second draw, or dropout behind them?"


class Right(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout):
        super().__init__()
        self.num_heads, self.dropout = num_heads, nn.Dropout(dropout)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            self.add_module(name, nn.Linear(embed_dim, embed_dim))

    def heads(self, x):
        return (split(p(x), self.num_heads) for p in (self.q_proj, self.k_proj, self.v_proj))

    def forward(self, x, mask=None):
        query, key, value = self.heads(x)
        scores = query @ key.mT / query.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = self.dropout(scores.softmax(-1))
        return self.out_proj(merge(weights @ value)), weights


class Definition(Right):
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


def in_training(built, seed):
    """What a layer shows whose out_proj hands the heads through."""
    heads, head_dim, p = torch.randint(2, 5, (3,), generator=seeded(seed, "training")).tolist()
    width, p = heads * head_dim, 0.2 + p / 20
    layer, own = built(width, heads, p), Right(width, heads, p)
    known = {k: draw(k, tuple(x.shape), seed, "training") for k, x in layer.named_parameters()}
    known |= {"out_proj.weight": torch.eye(width), "out_proj.bias": torch.zeros(width)}
    for each in (layer, own):
        each.load_state_dict(known, strict=False)
    x = 2 * draw("x", (BATCH, N, width), seed, "training")
    left = [layer.train(mode)(x) and part.training == mode for mode in (True, False)
            for part in layer.modules()]  # fmt: skip
    yield MODE, all(left) or "forward switches to another mode; leave the mode to the caller."
    for what, mask in (WITH_MASK, [mask_of(N, seed)]), (WITHOUT, []):
        true = own.eval()(x, *mask)[1].detach()
        torch.set_rng_state(seeded(seed, "dropout").get_state())
        result = layer.train()(x.clone(), *(m.clone() for m in mask))
        back = run(result[0].sum().backward)
        if isinstance(back, Raised):
            yield what, back
            continue
        output, weights = (part.detach().float() for part in result)
        if not (output.isfinite().all() and weights.isfinite().all()):
            yield what, "The output or the weights have NaN or infinite numbers."
            continue
        *_, value = own.heads(x)
        made = merge(weights @ value)
        yield what, kept(weights, true, p) if torch.allclose(made, output, atol=1e-3) else OTHERS
    with torch.no_grad():
        dropped = [layer.train()(x.repeat(COPIES, 1, 1))[1] == 0 for _ in range(CALLS)]
    yield DRAWS, drawn_alone(torch.stack(dropped).double(), p)


EXERCISE = Exercise(
    name="honest_plot",
    answer="HonestAttention",
    judge=Layers(
        Definition,
        "embed_dim num_heads dropout",
        SIZES,
        drawn=lambda h, d, _: (h * d, h, 0.3),
        calls=lambda n, seed: [Case(", with a mask", (mask_of(n, seed),)), Case("", ())],
        also=Facts(in_training, (MODE, WITH_MASK, WITHOUT, DRAWS)),
    ),
    right=Right,
    axes=("b n d", "b h n m"),
    results=("the output", "the weights"),
    asks_for="layer",
)
