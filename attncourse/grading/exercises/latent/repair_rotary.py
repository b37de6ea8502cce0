"""Exercise repair_rotary: which part of queries and keys knows the position?"""

import torch

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def definition(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    """Scores (b, h, n, n), and what is cached: latents as they are, rotary keys turned."""
    where = positions.tolist()
    latent = spec.linear(x, w_c)
    k_rotary = spec.rotary(spec.linear(x, w_kr), where)
    q = spec.split_heads(spec.linear(x, w_q), num_heads)
    q_rotary = spec.rotary(spec.split_heads(spec.linear(x, w_qr), num_heads), where)
    k = spec.split_heads(spec.linear(latent, w_k), num_heads)
    scores = torch.einsum("bhnd,bhmd->bhnm", q, k)
    scores = scores + torch.einsum("bhnr,bmr->bhnm", q_rotary, k_rotary)
    return scores / (q.size(-1) + q_rotary.size(-1)) ** 0.5, latent, k_rotary


def cases(seed: int) -> list[Case]:
    """Every axis its own size; positions that start late and leave gaps; one token."""
    g = torch.Generator().manual_seed(seed)

    def call(b, n, width, h, d, c, r, positions):
        shapes = (h * d, width), (h * r, width), (c, width), (r, width), (h * d, c)
        x = torch.randn(b, n, width, generator=g)
        w = [torch.randn(shape, generator=g) / shape[1] ** 0.5 for shape in shapes]
        return x, torch.tensor(positions), *w, h

    sizes = "2 samples, 5 tokens, width 7, 3 heads, head_dim 4, latent 10, rotary 6"
    return [
        Case(sizes, call(2, 5, 7, 3, 4, 10, 6, range(5))),
        Case("positions 90 to 93", call(2, 4, 6, 2, 3, 4, 8, range(90, 94))),
        Case("positions with gaps", call(1, 3, 5, 4, 6, 2, 2, [2, 3, 17])),
        Case("1 token, at position 7, 1 head", call(2, 1, 6, 1, 5, 8, 4, [7])),
        Case("all widths equal to 4", call(4, 4, 4, 4, 4, 4, 4, range(3, 7))),
    ]


def angles_of(x, positions, power=-2.0):
    """The angle of each token and pair, (n, d / 2)."""
    d = x.size(-1)
    return positions[:, None] * 10_000.0 ** (power * torch.arange(d // 2) / d)


def rotary(x, positions, power=-2.0):
    """As in the notebook of the exercise."""
    angles = angles_of(x, positions, power)
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def split(x, num_heads):
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def plain(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads, scale=None, **turned):
    """Right without further arguments; each of these spoils one step.

    ``turned`` says by what queries, keys, and cached things are turned: functions of x and positions.
    """

    def turn(name, x, usual=lambda x, positions: x):
        return turned.get(name, usual)(x, positions)

    latent = turn("latent", x @ w_c.mT)
    k_rotary = turn("k_rotary", x @ w_kr.mT, rotary)
    q = turn("q", split(x @ w_q.mT, num_heads))
    q_rotary = turn("q_rotary", split(x @ w_qr.mT, num_heads), rotary)
    k = turn("k", split(latent @ w_k.mT, num_heads))
    scores = q @ k.mT + q_rotary @ k_rotary[:, None].mT
    widths = q.size(-1), q_rotary.size(-1), latent.size(-1)
    scale = sum(widths[:2]) ** -0.5 if scale is None else scale(*widths)
    return scores * scale, latent, k_rotary


ACCEPTED = Accepted(plain=plain)


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

    def turn(x):
        angles = angles_of(x, positions.double())
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
    scores = q @ split(latent @ w_k.T, num_heads).mT
    columns = [
        (rotary(q_rotary, positions - positions[j]) * unturned[:, None, j, None]).sum(-1)
        for j in range(x.size(1))
    ]
    scores = scores + torch.stack(columns, dim=-1)
    scale = (q.size(-1) + q_rotary.size(-1)) ** 0.5
    return scores / scale, latent, rotary(unturned, positions)


MISTAKES = Mistakes()


def unturned(x, positions):
    return x


def backwards(x, positions):
    return rotary(x, -positions)


def from_zero(x, positions):
    return rotary(x, positions - positions[0])


def only_head_dim(d, r, c):
    return d**-0.5


def neighbours(x, positions):
    """Pairs (2 i, 2 i + 1), as in the paper."""
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = angles_of(x, positions).cos(), angles_of(x, positions).sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


for says, faults in (
    ("This is the code as found: the latent is turned, the rotary key is not, and the scale forgets "
     "rotary_dim.", {"latent": rotary, "k_rotary": unturned, "scale": only_head_dim}),
    ("The latent is still turned, and the scale still forgets rotary_dim.",
     {"latent": rotary, "scale": only_head_dim}),
    ("The latent is still turned, and the rotary key still is not.",
     {"latent": rotary, "k_rotary": unturned}),
    ("The rotary key is still not turned, and the scale still forgets rotary_dim.",
     {"k_rotary": unturned, "scale": only_head_dim}),
    ("The latent is still turned. Values are made from it, too, and no later step turns it back.",
     {"latent": rotary}),
    ("The rotary key is still not turned; turn it once, by its own position.",
     {"k_rotary": unturned}),
    ("The scale still forgets rotary_dim; the scores are sums of head_dim + rotary_dim products.",
     {"scale": only_head_dim}),
    ("The scale counts latent_dim; it is head_dim + rotary_dim, also where nothing is absorbed.",
     {"scale": lambda d, r, c: (c + r) ** -0.5}),
    ("The scale is missing.", {"scale": lambda d, r, c: 1.0}),
    ("The square root is missing in the scale.", {"scale": lambda d, r, c: 1 / (d + r)}),
    ("Queries and keys without positions are turned as well; then w_k can no longer be absorbed.",
     {"q": rotary, "k": rotary}),
    ("The keys that are made from the latents are turned; only the rotary key is.", {"k": rotary}),
    ("Nothing is turned, so the scores do not know the positions.",
     {"q_rotary": unturned, "k_rotary": unturned}),
    ("The rotary queries are no longer turned.", {"q_rotary": unturned}),
    ("The rotary key is turned backwards; both sides turn in one direction, and the difference stays.",
     {"k_rotary": backwards}),
    ("Both rotary parts are turned backwards; what is cached is then another key.",
     {"q_rotary": backwards, "k_rotary": backwards}),
    ("The positions are counted from 0; behind a cache they start later. Use positions.",
     {"q_rotary": from_zero, "k_rotary": from_zero}),
    ("Only the queries use positions; the rotary keys are counted from 0.", {"k_rotary": from_zero}),
    ("The rotary key is turned twice.",
     {"k_rotary": lambda x, positions: rotary(x, 2 * positions)}),
    ("Neighbouring features are paired; here feature i is paired with i + d / 2, as rotary does.",
     {"q_rotary": neighbours, "k_rotary": neighbours}),
    ("The frequencies are base^(-i / d); rotary takes base^(-2 i / d).",
     {name: lambda x, positions: rotary(x, positions, -1.0) for name in ("q_rotary", "k_rotary")}),
):  # fmt: skip
    # An odd number of features cannot turn in pairs; there nothing is turned.
    faults = {
        name: (lambda x, p, f=f: f(x, p) if x.size(-1) % 2 == 0 else x) if name != "scale" else f
        for name, f in faults.items()
    }
    MISTAKES.add(says)(lambda *args, faults=faults: plain(*args, **faults))


@MISTAKES.add("The scores are right, but the cached rotary key is not turned.")
def cached_unturned(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    scores, latent, _ = plain(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads)
    return scores, latent, x @ w_kr.T


@MISTAKES.add("The scores are right, but the cached latent is turned.")
def cached_turned(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    scores, latent, k_rotary = plain(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads)
    return scores, rotary(latent, positions), k_rotary


@MISTAKES.add("The rotary part no longer enters the scores.")
def no_rotary_part(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    return plain(x, positions, w_q, 0 * w_qr, w_c, w_kr, w_k, num_heads)


@MISTAKES.add("A causal mask is put in; the statement asks for the scores of all pairs.")
def masked(*args):
    scores, *cached = plain(*args)
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf), *cached


@MISTAKES.add("The weights are returned; the statement asks for the scores, before the softmax.")
def weights_returned(*args):
    scores, *cached = plain(*args)
    return torch.softmax(scores, dim=-1), *cached


@MISTAKES.add("Only the scores are returned; return (scores, latent, k_rotary).")
def scores_only(*args):
    return plain(*args)[0]


@MISTAKES.add("What is cached is detached; gradients must reach x and the matrices through it.")
def cached_detached(*args):
    scores, latent, k_rotary = plain(*args)
    return scores, latent.detach(), k_rotary.detach()


@MISTAKES.add("The rotary key comes before the latent; return (scores, latent, k_rotary).")
def exchanged(*args):
    scores, latent, k_rotary = plain(*args)
    return scores, k_rotary, latent


@MISTAKES.add(
    "The rotary queries are turned before they are split; each head is turned on its own."
)
def turned_before_the_split(x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads):
    by_head = rotary(x @ w_qr.mT, positions)
    return plain(
        x, positions, w_q, w_qr, w_c, w_kr, w_k, num_heads,
        q_rotary=lambda x, positions: split(by_head, num_heads),
    )  # fmt: skip


EXERCISE = Exercise(
    name="repair_rotary",
    answer="repaired_scores",
    title="Turn the right part",
    kind="Repair",
    points=3,
    difficulty=3,
    minutes=20,
    needs="section 'Why positions need a part of their own' of chapter 7",
    judge=Calls(definition, cases),
    hints=(
        "Three lines are wrong: one turns what must not be turned, one forgets to turn, one counts.",
        "The latent stays as it is. Both rotary parts are turned, each by its own position. How many "
        "products does one score add up?",
        "latent = x @ w_c.T; k_rotary = rotary(x @ w_kr.T, positions); divide by "
        "math.sqrt(head_dim + rotary_dim).",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
