"""Exercise repair_rotary: which part of queries and keys knows the position?"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from attncourse import spec
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.families import detached
from attncourse.grading.inputs import normal
from attncourse.grading.observe import Case
from attncourse.grading.recipe import triangle


def definition(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    """Scores (b, h, n, n), and what is cached: latents as they are, rotary keys turned."""
    where, latent = positions.tolist(), spec.linear(x, w_c)
    made = (x, w_q), (x, w_qr), (latent, w_k)
    q, q_rotary, k = (spec.split_heads(spec.linear(y, w), num_heads) for y, w in made)
    q_rotary, k_rotary = (spec.rotary(y, where) for y in (q_rotary, spec.linear(x, w_kr)))
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    scores = scores + torch.einsum("bhid,bjd->bhij", q_rotary, k_rotary)
    return scores / (q.size(-1) + q_rotary.size(-1)) ** 0.5, latent, k_rotary


CALLS = (  # what is special, b n width h d c r, positions
    ("2 samples, 5 tokens at 3 to 7, width 7, 3 heads, head_dim 4, latent 10, rotary 6", (2, 5, 7, 3, 4, 10, 6), range(3, 8)),
    ("positions 90 to 93", (3, 4, 5, 2, 6, 4, 8), range(90, 94)),
    ("positions with gaps", (1, 3, 5, 4, 6, 2, 2), (2, 3, 17)),
    ("positions from 0", (2, 3, 5, 2, 4, 6, 2), range(3)),
    ("1 token, at position 7, 1 head", (2, 1, 6, 1, 10, 8, 4), (7,)),
    ("all widths equal to 4", (4, 4, 4, 4, 4, 4, 4), range(3, 7)),
)  # fmt: skip


def cases(seed: int) -> list[Case]:
    g, found = torch.Generator().manual_seed(seed), []
    for what, (b, n, width, h, d, c, r), positions in CALLS:
        shapes = (h * d, width), (h * r, width), (c, width), (r, width), (h * d, c)
        x, *matrices = normal(g, (b, n, width), *shapes)
        matrices = [w / w.size(1) ** 0.5 for w in matrices]
        arguments = x, torch.tensor(positions), *matrices, h
        found.append(Case(what, arguments, gradients=len(found) < 3))
    return found


def rotary(x, positions, power=-2.0):
    """As in the notebook of the exercise."""
    (a, b), d = x.chunk(2, dim=-1), x.size(-1)
    angles = positions[:, None] * 10_000.0 ** (power * torch.arange(d // 2) / d)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def unturned(x, positions):
    return x


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


@dataclass(frozen=True)
class Scores:
    """A right answer in steps: what is done to each part with its positions, the scale, and what is returned."""

    latent: Callable = unturned
    k_rotary: Callable = rotary
    q: Callable = unturned
    q_rotary: Callable = rotary
    k: Callable = unturned
    scale: Callable = lambda d, r, c, h: (d + r) ** -0.5
    answer: Callable = lambda scores, latent, k_rotary, positions: (scores, latent, k_rotary)

    def __call__(self, x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
        latent = self.latent(x @ w_c.mT, positions)
        k_rotary = self.k_rotary(x @ w_kr.mT, positions)
        q = self.q(split(x @ w_q.mT, num_heads), positions)
        q_rotary = self.q_rotary(split(x @ w_qr.mT, num_heads), positions)
        k = self.k(split(latent @ w_k.mT, num_heads), positions)
        scale = self.scale(q.size(-1), q_rotary.size(-1), latent.size(-1), num_heads)
        scores = (q @ k.mT + q_rotary @ k_rotary[:, None].mT) * scale
        return self.answer(scores, latent, k_rotary, positions)

    def but(self, says: str, **steps: Callable) -> Mistake:
        return Mistake(says, replace(self, **steps), steps)


RIGHT = Scores()
ACCEPTED = Accepted(plain=RIGHT)


@ACCEPTED.add
def absorbed(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    latent, k_rotary = x @ w_c.T, rotary(x @ w_kr.T, positions)
    q, q_rotary = split(x @ w_q.T, num_heads), split(x @ w_qr.T, num_heads)
    asks = torch.einsum("bhnd,hdc->bhnc", q, w_k.unflatten(0, (num_heads, -1)))
    asks = torch.cat([asks, rotary(q_rotary, positions)], -1)
    scores = torch.einsum("bhnc,bmc->bhnm", asks, torch.cat([latent, k_rotary], -1))
    return scores / (q.size(-1) + q_rotary.size(-1)) ** 0.5, latent, k_rotary


@ACCEPTED.add
def complex_numbers_in_float64(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    x, w_q, w_qr, w_c, w_kr, w_k = (t.double() for t in (x, w_q, w_qr, w_c, w_kr, w_k))
    angles = (
        positions[:, None] * 10_000.0 ** -torch.linspace(0, 1, len(w_kr) // 2 + 1)[:-1].double()
    )

    def turn(x):
        turned = torch.complex(*x.chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1)

    latent, k_rotary = x @ w_c.T, turn(x @ w_kr.T)
    query = torch.cat([split(x @ w_q.T, num_heads), turn(split(x @ w_qr.T, num_heads))], -1)
    shared = k_rotary[:, None].expand(-1, num_heads, -1, -1)
    key = torch.cat([split(latent @ w_k.T, num_heads), shared], -1)
    return query @ key.mT / query.size(-1) ** 0.5, latent, k_rotary


@ACCEPTED.add
def one_head_after_the_other(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    latent, k_rotary = x @ w_c.T, rotary(x @ w_kr.T, positions)
    rows = (w.chunk(num_heads) for w in (w_q, w_qr, w_k))
    scores = []
    for q, r, k in zip(*rows, strict=True):
        fit = (x @ q.T) @ (latent @ k.T).mT + rotary(x @ r.T, positions) @ k_rotary.mT
        scores.append(fit / (q.size(0) + r.size(0)) ** 0.5)
    return torch.stack(scores, dim=1), latent, k_rotary


@ACCEPTED.add
def one_rotation_by_the_distance(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    """The cache holds turned keys; the scores turn the query by the distance instead."""
    latent, unturned = x @ w_c.T, x @ w_kr.T
    q, q_rotary = split(x @ w_q.T, num_heads), split(x @ w_qr.T, num_heads)
    columns = [
        (rotary(q_rotary, positions - at) * key[:, None, None]).sum(-1)
        for at, key in zip(positions, unturned.unbind(1), strict=True)
    ]
    scores = q @ split(latent @ w_k.T, num_heads).mT + torch.stack(columns, dim=-1)
    return scores / (q.size(-1) + q_rotary.size(-1)) ** 0.5, latent, rotary(unturned, positions)


ROOT = "sqrt(head_dim + rotary_dim)"
PARTS = {
    "The rotary queries are": ["q_rotary"],
    "The rotary key is": ["k_rotary"],
    "Both rotary parts are": ["q_rotary", "k_rotary"],
}
MISTAKES = Mistakes([
    RIGHT.but("This is the code as found: the latent is turned, the rotary key is not, and the scale forgets rotary_dim.",
              latent=rotary, k_rotary=unturned, scale=lambda d, r, c, h: d**-0.5),
    *(RIGHT.but(says, scale=scale) for says, scale in (
        ("The scale forgets rotary_dim; a score is a sum of head_dim + rotary_dim products.", lambda d, r, c, h: d**-0.5),
        ("The scale forgets head_dim; a score is a sum of head_dim + rotary_dim products.", lambda d, r, c, h: r**-0.5),
        ("The scale counts latent_dim; it is head_dim + rotary_dim, also where nothing is absorbed.",
         lambda d, r, c, h: (c + r) ** -0.5),
        ("The two roots are added; it is the root of the sum.", lambda d, r, c, h: 1 / (d**0.5 + r**0.5)),
        (f"The scores are not divided by {ROOT}.", lambda d, r, c, h: 1.0),
        ("The scores are divided by head_dim + rotary_dim instead of its square root.", lambda d, r, c, h: 1 / (d + r)),
        (f"The scores are multiplied by {ROOT}; divide by it.", lambda d, r, c, h: (d + r) ** 0.5),
        ("The scale uses the width of all heads together; it is the square root of the width of one.",
         lambda d, r, c, h: (h * (d + r)) ** -0.5),
        (f"The scale uses the number of heads; it is {ROOT}.", lambda d, r, c, h: h**-0.5),
    )),
    *(RIGHT.but(f"{which} {says}", **dict.fromkeys(parts, lambda x, p, to=to: rotary(x, to(p)))) for says, to in (
        ("not turned; each is turned once, by its own position.", lambda p: 0 * p),
        ("turned twice.", lambda p: 2 * p),
        ("turned backwards; all turn in the direction of the positions, what is cached as well.", lambda p: -p),
        ("turned by positions counted from 0; behind a cache they start later.", lambda p: p - p[0]),
        ("turned by the row, 0 to n - 1; positions start later, and may leave gaps.", lambda p: torch.arange(len(p))),
    ) for which, parts in PARTS.items()),
    *(RIGHT.but(says, **dict.fromkeys(parts.split(), step)) for says, parts, step in (
        ("The latent is turned. Values are made from it, too, and no later step turns it back.", "latent", rotary),
        ("Queries and keys without positions are turned as well; then w_k can no longer be absorbed.", "q k", rotary),
        ("The keys that are made from the latents are turned; only the rotary key is.", "k", rotary),
        ("The queries without positions are turned; only the rotary queries are.", "q", rotary),
        ("Neighbouring features are paired; here feature i is paired with i + d / 2, as rotary does.", "q_rotary k_rotary",
         lambda x, p: rotary(x.unflatten(-1, (-1, 2)).mT.flatten(-2), p).unflatten(-1, (2, -1)).mT.flatten(-2)),
        ("The frequencies are base^(-i / d); rotary takes base^(-2 i / d).", "q_rotary k_rotary",
         lambda x, p: rotary(x, p, -1.0)),
        ("The rotary queries are turned before they are split; each head is turned on its own.", "q_rotary",
         lambda x, p: split(rotary(x.transpose(1, 2).flatten(2), p), x.size(1))),
        ("The rotary part no longer enters the scores.", "q_rotary", lambda x, p: 0 * x),
        ("Only the rotary part enters the scores.", "q", lambda x, p: 0 * x),
    )),
    *(RIGHT.but(says, answer=answer) for says, answer in (
        ("The scores are right, but the cached rotary key is not turned.", lambda s, c, r, p: (s, c, rotary(r, -p))),
        ("The scores are right, but the cached latent is turned.", lambda s, c, r, p: (s, rotary(c, p), r)),
        ("A causal mask is put in; the statement asks for the scores of all pairs.",
         lambda s, c, r, p: (s.masked_fill(~triangle(*s.shape[2:], 0), -torch.inf), c, r)),
        ("The weights are returned; the statement asks for the scores, before the softmax.",
         lambda s, c, r, p: (s.softmax(-1), c, r)),
        ("The rotary key is repeated for every head; one is cached for all of them.",
         lambda s, c, r, p: (s, c, r[:, None].expand(-1, s.size(1), -1, -1))),
        ("Only the scores are returned; return (scores, latent, k_rotary).", lambda s, c, r, p: s),
        ("The rotary key comes before the latent; return (scores, latent, k_rotary).", lambda s, c, r, p: (s, r, c)),
        ("What is cached is detached; gradients must reach x and the matrices through it.",
         lambda s, c, r, p: (s, c.detach(), r.detach())),
        ("No gradient flows back: the result is detached or made inside no_grad.", lambda *found: detached(found[:3])),
    )),
])  # fmt: skip

EXERCISE = Exercise(
    name="repair_rotary", answer="repaired_scores", title="Turn the right part", kind="Repair",
    points=3, difficulty=3, minutes=20,
    needs="section 'Why positions need a part of their own' of chapter 7",
    judge=Calls(definition, cases), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Three lines are wrong: one turns what must not be turned, one forgets to turn, one counts.",
        "The latent stays as it is. Both rotary parts are turned, each by its own position. How many "
        "products does one score add up?",
        "latent = x @ w_c.T; k_rotary = rotary(x @ w_kr.T, positions); divide by "
        "math.sqrt(head_dim + rotary_dim).",
    ),
)  # fmt: skip
