"""Exercise repair_rotary: which part of queries and keys knows the position?"""

import torch

from attncourse import spec
from attncourse.grading.compare import same
from attncourse.grading.exercise import Asked, Calls, Case, Dataflow, Exercise, normal, seeded
from attncourse.grading.explain.mixtures import mixture
from attncourse.grading.heads import rotary, split


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
    ("positions beyond 2048", (2, 3, 5, 2, 6, 4, 4), (2049, 3001, 3002)),
    ("positions with gaps", (1, 3, 5, 4, 6, 2, 2), (2, 3, 17)),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, n, width, h, d, c, r), positions in CALLS:
        shapes = (h * d, width), (h * r, width), (c, width), (r, width), (h * d, c)
        x, *matrices = normal(g, (b, n, width), *shapes)
        args = x, torch.tensor(positions), *(w / w.size(1) ** 0.5 for w in matrices), h
        found.append(Case(what, args, gradients=len(found) < 3))
    return found


CONTENT, TURNED = "the products of queries and keys", "the products of the rotary parts"


@Dataflow
def right(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads, turn=rotary):
    latent = yield "the latents", x @ w_c.mT
    keys = yield "the cached rotary keys", turn(x @ w_kr.mT, positions)
    asks = split(x @ w_qr.mT, num_heads)
    asks = yield "the turned rotary queries", turn(asks, positions)
    q, k = (split(y, num_heads) for y in (x @ w_q.mT, latent @ w_k.mT))
    content = yield CONTENT, q @ k.mT
    turned = yield TURNED, asks @ keys[:, None].mT
    return (content + turned) / (q.size(-1) + asks.size(-1)) ** 0.5, latent, keys


def turned_latent(asked: Asked) -> str:
    """Also where the call with an odd latent_dim ends in an error, or something else is wrong."""
    for call in asked.shaped:
        latent, positions = call.expected[1], call.case.args[1]
        if latent.size(-1) % 2 == 0 and same(rotary(latent, positions), call.seen[1]):
            return (
                "The latent is turned. Values are made from it, too, and no later step turns it "
                "back: turn the rotary parts alone."
            )
    return ""


EXERCISE = Exercise(
    name="repair_rotary",
    answer="repaired_scores",
    judge=Calls(definition, cases),
    right=right,
    explain=(turned_latent, mixture(CONTENT, TURNED)),
    axes=("b h n m", "b t e", "b t d"),
    results=("the scores", "the cached latents", "the cached rotary keys"),
)
