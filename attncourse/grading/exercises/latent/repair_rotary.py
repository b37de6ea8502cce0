"""Exercise repair_rotary: which part of queries and keys knows the position?"""

from dataclasses import replace
from functools import partial

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Case, Exercise, Mistakes
from attncourse.grading.exercises.latent._noticed import Turned
from attncourse.grading.inputs import normal, seeded
from attncourse.grading.layers_judge import split
from attncourse.grading.mistakes import detached, mistakes_of, scales
from attncourse.grading.recipe import Given, Recipe, triangle


def definition(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    """Scores (b, h, n, n), and what is cached: latents as they are, rotary keys turned."""
    where, latent = positions.tolist(), spec.affine(x, w_c)
    made = (x, w_q), (x, w_qr), (latent, w_k)
    q, q_rotary, k = (spec.split_heads(spec.affine(y, w), num_heads) for y, w in made)
    q_rotary, k_rotary = (spec.rotary(y, where) for y in (q_rotary, spec.affine(x, w_kr)))
    scores = q @ k.mT + torch.einsum("bhid,bjd->bhij", q_rotary, k_rotary)
    return scores / (q.size(-1) + q_rotary.size(-1)) ** 0.5, latent, k_rotary


BOTH = "q_rotary k_rotary"  # the parts that are turned
CALLS = (  # what is special, b n width h d c r, positions
    ("2 samples, 5 tokens at 3 to 7, 3 heads, head_dim 4, latent 9", (2, 5, 7, 3, 4, 9, 6), range(3, 8)),
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


def rotary(x, positions, power=-2.0):
    """As in the notebook of the exercise."""
    (a, b), d = x.chunk(2, dim=-1), x.size(-1)
    angles = positions[:, None] * 10_000.0 ** (power * torch.arange(d // 2) / d)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def given(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads, **turned):
    """A right answer but for the parts that are ``turned`` in another way; the value is the latent."""
    turn = dict.fromkeys(("latent", "q", "k"), lambda y, positions: y)
    turn |= {"q_rotary": rotary, "k_rotary": rotary, **turned}
    latent = turn["latent"](x @ w_c.mT, positions)
    k_rotary = turn["k_rotary"](x @ w_kr.mT, positions)
    made = {"q": x @ w_q.mT, "q_rotary": x @ w_qr.mT, "k": latent @ w_k.mT}
    q, q_rotary, k = (turn[name](split(y, num_heads), positions) for name, y in made.items())
    key = torch.cat([k, k_rotary[:, None].expand(-1, num_heads, -1, -1)], -1)
    return Given(torch.cat([q, q_rotary], -1), key, latent[:, None], rest=(k_rotary, positions))


def turned(parts, turn):
    return {"given": partial(given, **dict.fromkeys(parts.split(), turn))}


def by_complex_numbers(x, positions):
    angles = 10_000.0 ** -torch.linspace(0, 1, x.size(-1) // 2 + 1)[:-1].double()
    turned = torch.complex(*x.double().chunk(2, -1)) * torch.exp(1j * positions[:, None] * angles)
    return torch.cat([turned.real, turned.imag], -1).to(x.dtype)


RIGHT = Recipe(
    given, width="head_dim + rotary_dim", answer=lambda o, w, s, x: (s, x.value[:, 0], x.rest[0]),
)  # fmt: skip
ACCEPTED = Accepted(plain=RIGHT)
ACCEPTED["complex_numbers_in_float64"] = replace(RIGHT, **turned(BOTH, by_complex_numbers))


@ACCEPTED.add
def absorbed(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    latent, k_rotary = x @ w_c.T, rotary(x @ w_kr.T, positions)
    blocks, q = w_k.unflatten(0, (num_heads, -1)), split(x @ w_q.T, num_heads)
    asks = q @ blocks, rotary(split(x @ w_qr.T, num_heads), positions)
    scores = torch.cat(asks, -1) @ torch.cat([latent, k_rotary], -1)[:, None].mT
    return scores / ((len(w_q) + len(w_qr)) / num_heads) ** 0.5, latent, k_rotary


@ACCEPTED.add
def one_head_after_the_other(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    latent, k_rotary, scores = x @ w_c.T, rotary(x @ w_kr.T, positions), []
    for q, r, k in zip(*(w.chunk(num_heads) for w in (w_q, w_qr, w_k)), strict=True):
        fit = (x @ q.T) @ (latent @ k.T).mT + rotary(x @ r.T, positions) @ k_rotary.mT
        scores.append(fit / (q.size(0) + r.size(0)) ** 0.5)
    return torch.stack(scores, dim=1), latent, k_rotary


@ACCEPTED.add
def one_rotation_by_the_distance(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    """The cache holds turned keys; the scores turn the query by the distance instead."""
    latent, keys, q_rotary = x @ w_c.T, x @ w_kr.T, split(x @ w_qr.T, num_heads)
    asks = torch.stack([rotary(q_rotary, positions - at) for at in positions], -2)
    scores = split(x @ w_q.T, num_heads) @ split(latent @ w_k.T, num_heads).mT
    scores = scores + torch.einsum("bhnmr,bmr->bhnm", asks, keys)
    return scores / ((len(w_q) + len(w_qr)) / num_heads) ** 0.5, latent, rotary(keys, positions)


PARTS = {
    "The rotary queries are": "q_rotary", "The rotary key is": "k_rotary", "Both rotary parts are": BOTH,
}  # fmt: skip
WITHOUT = "scaled by values", "scaled by keys", "scaled by queries", "scaled after the softmax"
AS_FOUND = {"given": partial(given, latent=rotary, k_rotary=lambda key, positions: key)}
NO_ROTARY = {"scale": lambda x: (x.width - x.rest[0].size(-1)) ** -0.5}
RETURNED = (  # what is made of scores, latent, k_rotary and positions
    ("The scores are right, but the cached rotary key is not turned.", lambda s, c, r, p: (s, c, rotary(r, -p))),
    ("The scores are right, but the cached latent is turned.", lambda s, c, r, p: (s, rotary(c, p), r)),
    ("A causal mask is put in; the scores of all pairs are asked.",
     lambda s, c, r, p: (s.masked_fill(~triangle(*s.shape[2:], 0), -torch.inf), c, r)),
    ("A causal mask is put in; the scores of all pairs are asked.",
     lambda s, c, r, p: (s + torch.full(s.shape[2:], -torch.inf).triu(1), c, r)),
    ("The weights are returned; return the scores, before the softmax.", lambda s, c, r, p: (s.softmax(-1), c, r)),
    ("Only the scores are returned; return (scores, latent, k_rotary).", lambda s, c, r, p: s),
    ("The rotary key comes before the latent; return (scores, latent, k_rotary).", lambda s, c, r, p: (s, r, c)),
    ("What is cached is detached; gradients flow through it.", lambda s, c, r, p: (s, c.detach(), r.detach())),
    ("The cached rotary key is detached; gradients flow through it.", lambda s, c, r, p: (s, c, r.detach())),
    ("The cached latent is detached; gradients flow through it.", lambda s, c, r, p: (s, c.detach(), r)),
    ("No gradient flows back: the result is detached or made inside no_grad.", lambda *found: detached(found[:3])),
)  # fmt: skip
MISTAKES = Mistakes([
    RIGHT.but("This is the code as found: the latent is turned, the key is not, the scale forgets rotary_dim.",
              **AS_FOUND, **NO_ROTARY),
    RIGHT.but("The latent is still turned, and the rotary key still is not.", **AS_FOUND),
    RIGHT.but("The scale forgets rotary_dim; a score adds up head_dim + rotary_dim products.", **NO_ROTARY),
    RIGHT.but("The scale counts latent_dim; it is head_dim + rotary_dim, absorbed or not.",
              scale=lambda x: (x.value.size(-1) + x.rest[0].size(-1)) ** -0.5),
    *mistakes_of(RIGHT, scales, without=WITHOUT),
    *(RIGHT.but(f"{which} {says}", **turned(parts, lambda x, p, to=to: rotary(x, to(p)))) for says, to in (
        ("not turned; turn each once, by its position.", lambda p: 0 * p), ("turned twice.", lambda p: 2 * p),
        ("turned backwards; all turn in the direction of the positions, cached or not.", lambda p: -p),
        ("turned by positions counted from 0; behind a cache they start later.", lambda p: p - p[0]),
        ("turned by the row; positions start later, and leave gaps.", lambda p: torch.arange(len(p))),
    ) for which, parts in PARTS.items()),
    *(RIGHT.but(says, **turned(parts, turn)) for says, parts, turn in (
        ("The latent is turned. Values are made from it, too, and no later step turns it back.", "latent", rotary),
        ("Queries and keys without positions are turned; then w_k can no longer be absorbed.", "q k", rotary),
        ("The keys that are made from the latents are turned; only the rotary key is.", "k", rotary),
        ("Neighbouring features are paired; feature i is paired with i + d / 2, as rotary does.", BOTH,
         lambda x, p: rotary(x.unflatten(-1, (-1, 2)).mT.flatten(-2), p).unflatten(-1, (2, -1)).mT.flatten(-2)),
        ("The frequencies are base^(-i / d), not base^(-2 i / d).", BOTH, partial(rotary, power=-1.0)),
        ("The rotary queries are turned before they are split; each head is turned on its own.", "q_rotary",
         lambda x, p: split(rotary(x.transpose(1, 2).flatten(2), p), x.size(1))),
        ("The rotary part no longer enters the scores.", "q_rotary", lambda x, p: 0 * x),
    )),
    *(RIGHT.but(says, answer=lambda o, w, s, x, f=f: f(s, x.value[:, 0], *x.rest)) for says, f in RETURNED),
])  # fmt: skip

EXERCISE = Exercise(
    name="repair_rotary",
    answer="repaired_scores",
    judge=Turned(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
