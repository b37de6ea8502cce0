"""Exercise repair_rotary: which part of queries and keys knows the position?"""

from functools import partial

import torch

from attncourse import spec
from attncourse.grading.dataflow import dataflow, named
from attncourse.grading.exercise import Calls, Case, Exercise
from attncourse.grading.explain.mixtures import mixture
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.layer_recipe import split
from attncourse.grading.mistake import Mistake


def definition(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    """Scores (b, h, n, n), and what is cached: latents as they are, rotary keys turned."""
    where, latent = positions.tolist(), spec.affine(x, w_c)
    made = (x, w_q), (x, w_qr), (latent, w_k)
    q, q_rotary, k = (spec.split_heads(spec.affine(y, w), num_heads) for y, w in made)
    q_rotary, k_rotary = (spec.rotary(y, where) for y in (q_rotary, spec.affine(x, w_kr)))
    scores = q @ k.mT + torch.einsum("bhid,bjd->bhij", q_rotary, k_rotary)
    return scores / (q.size(-1) + q_rotary.size(-1)) ** 0.5, latent, k_rotary


CALLS = (  # what is special, b n width h d c r, positions
    ("2 samples, 5 tokens at 3 to 7, 3 heads, head_dim 4, latent 9",
     (2, 5, 7, 3, 4, 9, 6), range(3, 8)),
    ("positions 90 to 93", (3, 4, 5, 2, 6, 4, 8), range(90, 94)),
    ("positions with gaps", (1, 3, 5, 4, 6, 2, 2), (2, 3, 17)),
    ("1 token, at position 7, 1 head", (2, 1, 6, 1, 10, 8, 4), (7,)),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, n, width, h, d, c, r), positions in CALLS:
        shapes = (h * d, width), (h * r, width), (c, width), (r, width), (h * d, c)
        x, *matrices = normal(g, (b, n, width), *shapes)
        args = x, torch.tensor(positions), *(w / w.size(1) ** 0.5 for w in matrices), h
        found.append(Case(what, args, gradients=len(found) < 3))
    return found


def rotary(x, positions):
    """As in the notebook of the exercise."""
    (a, b), d = x.chunk(2, dim=-1), x.size(-1)
    angles = positions[:, None] * 10_000.0 ** (-2.0 * torch.arange(d // 2) / d)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def as_it_is(x, positions):
    return x


def root(d, r, c):
    """What the scores are divided by, of the widths of queries, rotary queries and latents."""
    return (d + r) ** 0.5


CONTENT, TURNED = "the products of queries and keys", "the products of the rotary parts"


@dataflow()
def right(
    x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads, root=root,
    turn_q=rotary, turn_k=rotary, turn_latent=as_it_is, turn_content=as_it_is,
):  # fmt: skip
    latent = yield named("the latents: b t e", turn_latent(x @ w_c.mT, positions))
    keys = yield named("the cached rotary keys: b t d", turn_k(x @ w_kr.mT, positions))
    asks = split(x @ w_qr.mT, num_heads)
    asks = yield named("the turned rotary queries: b h n d", turn_q(asks, positions))
    q, k = (turn_content(split(y, num_heads), positions) for y in (x @ w_q.mT, latent @ w_k.mT))
    content = yield named(f"{CONTENT}: b h n m", q @ k.mT)
    turned = yield named(f"{TURNED}: b h n m", asks @ keys[:, None].mT)
    widths = q.size(-1), asks.size(-1), latent.size(-1)
    return (content + turned) / root(*widths), latent, keys


def both(turn):
    return partial(right, turn_q=turn, turn_k=turn)


def neighbours(x, positions):
    """Features 2 i and 2 i + 1 are a pair."""
    paired = rotary(x.unflatten(-1, (-1, 2)).mT.flatten(-2), positions)
    return paired.unflatten(-1, (2, -1)).mT.flatten(-2)


EXERCISE = Exercise(
    name="repair_rotary",
    answer="repaired_scores",
    judge=Calls(definition, cases),
    right=right,
    explain=(mixture(CONTENT, TURNED),),
    axes=("b h n m", "b t e", "b t d"),
    results=("the scores", "the cached latents", "the cached rotary keys"),
    measures=("gradients",),
    ideas=[
        Mistake(
            "This is the code as found: the latent is turned, the key is not, the scale forgets "
            "rotary_dim.",
            partial(right, turn_latent=rotary, turn_k=as_it_is, root=lambda d, r, c: d**0.5),
        ),
        Mistake(
            "The latent is still turned, and the rotary key still is not.",
            partial(right, turn_latent=rotary, turn_k=as_it_is),
        ),
        Mistake(
            "The scale forgets rotary_dim; a score adds up head_dim + rotary_dim products.",
            partial(right, root=lambda d, r, c: d**0.5),
        ),
        Mistake("The rotary key is not turned; turn it once.", partial(right, turn_k=as_it_is)),
        Mistake("The rotary queries are not turned.", partial(right, turn_q=as_it_is)),
        Mistake(
            "Both rotary parts are not turned; turn each once, by its position.", both(as_it_is)
        ),
        Mistake(
            "Both rotary parts are turned by positions counted from 0; behind a cache they start "
            "later.",
            both(lambda x, p: rotary(x, p - p[0])),
        ),
        Mistake(
            "Both rotary parts are turned by the row; positions start later, and leave gaps.",
            both(lambda x, p: rotary(x, torch.arange(len(p)))),
        ),
        Mistake(
            "The latent is turned. Values are made from it, too, and no later step turns it back.",
            partial(right, turn_latent=rotary),
        ),
        Mistake(
            "Queries and keys without positions are turned; then w_k can no longer be absorbed.",
            partial(right, turn_content=rotary),
        ),
        Mistake(
            "Neighbouring features are paired; feature i is paired with i + d / 2, as rotary does.",
            both(neighbours),
        ),
        Mistake(
            "The weights are returned; return the scores, before the softmax.",
            lambda *args: (right(*args)[0].softmax(-1), *right(*args)[1:]),
        ),
    ],
)
