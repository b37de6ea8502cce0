"""Exercise explain_head: name a head of the trained model and what it does, measured on held-out passages."""

from functools import partial
from operator import index

import torch
from torch import Tensor, nn

from attncourse.grading.compare import Described, Raised
from attncourse.grading.mistake import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.capstone._maps import (
    all_move,
    logits_shape,
    rows_of,
    same_again,
    shape_of,
)
from attncourse.grading.exercises.capstone._text import (
    CHARACTERS,
    Table,
    loss,
    manual,
    of_pairs,
    passages,
)
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import run
from attncourse.grading.trained import drawn_like, facts_of, with_parameters

MAX_PARAMETERS, MORE, LEAST = 400_000, 1.5, 0.2
WHAT = "previous", "start", "same", "spread"
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MAX_PARAMETERS:,} numbers",
    "it returns logits, weights and a claim",
    f"logits have shape (b, n, {CHARACTERS}), and the loss is below that of the table of pairs",
    "weights of each layer have shape (b, heads, n, n)",
    "the weights of a row sum to 1, and no later character has one",
    "asked twice, the weights are the same",
    "the claim is a layer, a head and one of the four descriptions",
    f"the head does it {MORE} times as much as the others do on average, and {LEAST} or more",
    "other parameters give other weights",
    "characters left unchanged",
)


def facts(model, seed: int) -> dict:
    """What the model reads in held-out passages."""
    passage = passages(seeded(seed), 16)
    rest = partial(judge, passage=passage, generator=seeded(seed, "parameters"))
    return facts_of(model, NAMES, MAX_PARAMETERS, passage[:, :-1].clone(), rest)


def judge(model, tokens, passage, generator) -> tuple:
    """The facts between the first two and the last, as far as they can be told."""
    given, tokens = tokens, tokens.clone()
    result = model(given)  # here it may change them
    if not (isinstance(result, tuple | list) and len(result) == 3):
        return (f"a {type(result).__name__}",)
    logits, weights, claim = result
    if (found := logits_shape(logits, weights, (*tokens.shape, CHARACTERS))) is not True:
        return True, found
    learned = loss(logits, passage[:, 1:]) < of_pairs(passage) or "the loss is higher: not trained"
    if (shape := shape_of(weights, tokens)) is not True:
        return True, learned, shape
    maps = torch.stack([x.detach().double() for x in weights])  # layers, b, heads, n, n
    if (rows := rows_of(maps)) is not True:
        return True, learned, True, rows
    sound = True, learned, True, True
    if not same_again(model(tokens[:4].clone())[1], maps[:, :4]):
        return *sound, False
    claim = run(claim_of, claim, maps)
    if isinstance(claim, str | Raised):
        return *sound, True, claim
    others = with_parameters(model, drawn_like(model, generator), tokens)[1]
    other = torch.stack([x.detach().double() for x in others])
    return *sound, True, True, stands_out(maps, tokens, claim), all_move(other, maps)


def claim_of(claim, maps: Tensor) -> tuple | str:
    """(layer, head, what), or what is wrong with it."""
    if not isinstance(claim, tuple | list) or len(claim) != 3:
        return "it has another form"
    layer, head, what = claim
    if isinstance(layer, str) or isinstance(head, str):
        return "it has another form"
    layer, head = index(layer), index(head)
    if what not in WHAT:
        return "the description is none of the four"
    if not 0 <= layer < maps.size(0) or not 0 <= head < maps.size(2):
        return "there is no such head"
    return layer, head, what


def measured(maps: Tensor, tokens: Tensor) -> dict[str, Tensor]:
    """How much each head does of each description, (layers, heads), between 0 and 1.

    The mean over samples and over the positions from 8 on.
    """
    n = tokens.size(1)
    same = ((tokens[:, :, None] == tokens[:, None]) & torch.ones(n, n).tril(-1).bool())[:, None]
    entropy = -(maps * maps.clamp_min(1e-12).log()).sum(-1)
    found = {
        "previous": nn.functional.pad(maps.diagonal(-1, -2, -1), (1, 0)),
        "start": maps[..., 0],
        "same": (maps * same).sum(-1),
        "spread": entropy.exp() / torch.arange(1, n + 1),
    }
    return {what: x[..., 8:].mean((1, 3)) for what, x in found.items()}


def beside(measure: Tensor, layer: int, head: int) -> tuple[float, float]:
    """What one head has, and the mean of the others; its own where there is no other."""
    own, n = measure[layer, head].item(), measure.numel()
    return own, (measure.sum().item() - own) / (n - 1) if n > 1 else own


def does_it(measure: Tensor, layer: int, head: int) -> bool:
    """Does this head stand out?"""
    own, rest = beside(measure, layer, head)
    return own >= max(LEAST, MORE * rest)


def stands_out(maps, tokens, claim) -> bool | Described:
    """True where the head does what is claimed, more than the others do."""
    layer, head, what = claim
    every = measured(maps, tokens)
    if does_it(every[what], layer, head):
        return True
    if every[what].numel() == 1:
        return "there is no other head to compare with; a model of two heads or more is needed"
    own, rest = beside(every[what], layer, head)
    numbers = f"{own:.2f}, the others have {rest:.2f} on average"
    if does := next(
        (name for name in WHAT if name != what and does_it(every[name], layer, head)), ""
    ):
        return Described(f"it does something else, look at {does}: {numbers}")
    return Described(f"it does not stand out: {numbers}")


class Reader(Table):
    """The table of the trained model, with attention made of four features; both sit in parameters."""

    HEADS = {(0, 1): (0, 9.0), (1, 0): (1, 8.0), (1, 2): (2, 6.0), (0, 2): (3, 1.0)}

    def __init__(self, claim, give=lambda logits, maps, claim: (logits, maps, claim), known=1.0):
        super().__init__(known=known)
        self.claim, self.give = claim, give
        own = torch.zeros(2, 3, 5)
        own[..., 4] = 4.0  # all heads read what they have just read
        for head, (feature, size) in self.HEADS.items():
            own[head] = torch.zeros(5).index_fill(0, torch.tensor(feature), size)
        self.own = nn.Parameter(own)

    def forward(self, tokens):
        n = tokens.size(1)
        one = torch.eye(n).expand(len(tokens), n, n)
        start = torch.zeros(n, n).index_fill(1, torch.tensor(0), 1.0).expand_as(one)
        same = (tokens[:, :, None] == tokens[:, None]) & torch.ones(n, n).tril(-1).bool()
        features = torch.stack(
            [one.roll(-1, 2), start, same.float(), torch.zeros_like(one), one], -1
        )
        scores = torch.einsum("bnmf,lhf->lbhnm", features, self.own)
        maps = scores.masked_fill(~torch.ones(n, n).tril().bool(), -torch.inf).softmax(-1)
        return self.give(super().forward(tokens), list(maps), self.claim)


ACCEPTED = Accepted(
    previous=Reader((0, 1, "previous")), start=Reader((1, 0, "start")), same=Reader([1, 2, "same"]),
    spread=Reader((torch.tensor(0), torch.tensor(2), "spread"), lambda x, maps, c: (x, torch.stack(maps), c)),
)  # fmt: skip
RIGHT = 0, 1, "previous"


def giving(change, **options):
    """Something else is returned."""
    return Reader(RIGHT, change, **options)


class Stale(Reader):
    """The weights are collected before the model is run; first those of other passages, ``count`` of them."""

    def __init__(self, claim, count):
        super().__init__(claim)
        text = manual()[0][: 64 * count].view(count, 64)
        self.before = super().forward(text)[1]

    def forward(self, tokens):
        logits, maps, claim = super().forward(tokens)
        before, self.before = self.before, [x.detach() for x in maps]
        return logits, before, claim


class Fixed(Reader):
    """Weights that no parameter decides."""

    def forward(self, tokens):
        logits, maps, claim = super().forward(tokens)
        drawn = torch.eye(tokens.size(1)).roll(-1, 1)
        drawn[0] = torch.eye(tokens.size(1))[0]
        other = torch.eye(tokens.size(1)).expand_as(maps[0][:, 0])
        fixed = torch.stack([other, drawn.expand_as(other), other], 1)
        return logits, [fixed, torch.stack([other] * 3, 1)], claim


MISTAKES = Mistakes(Mistake(says, model) for says, model in (
    ("This is the class; build a model and check that.", Reader),
    ("Only the logits are returned; return (logits, weights, claim).", giving(lambda x, maps, c: x)),
    ("The claim is missing; return (logits, weights, claim).", giving(lambda x, maps, c: (x, maps))),
    ("The order is (weights, logits, claim); the logits come first.", giving(lambda x, maps, c: (maps, x, c))),
    ("This is no trained model: wrap the one that you have trained.", Reader(RIGHT, known=0.0)),
    ("The logits are what the trained model returns, logits and cache together. Hand on the first of it, model(tokens)[0].",
     giving(lambda x, maps, c: ((x, maps), maps, c))),
    ("The weights are averaged over the heads; return those of each head, (b, heads, n, n).",
     giving(lambda x, maps, c: (x, [y.mean(1) for y in maps], c))),
    *(("These are scores, or something else that is no share between 0 and 1; return the weights, behind the softmax.",
       giving(lambda x, maps, c, change=change: (x, [change(y) for y in maps], c)))
      for change in (lambda y: 9 * y, lambda y: y - y.mean(), lambda y: y.log())),
    ("The weights of some rows sum to less than 1: something takes a share of them, as a mask does that comes behind the softmax. "
     "Hide scores before the softmax, and return the weights that attention has used.",
     giving(lambda x, maps, c: (x, [y.roll(1, -1).tril() for y in maps], c))),
    ("The maps are turned: a row is a position that reads, a column one that is read.",
     giving(lambda x, maps, c: (x, [y.mT for y in maps], c))),
    ("The weights are those before the mask; return those that attention has used.",
     giving(lambda x, maps, c: (x, [torch.full_like(y, 1 / y.size(-1)) for y in maps], c))),
    ("There is no such head; layers and heads are counted from 0.", Reader((2, 1, "previous"))),
    ("The description is none of the four: previous, start, same, spread.", Reader((0, 1, "the character before"))),
    ("The claim has another form; it is (layer, head, what).", Reader("previous")),
    ("This head does something else than is claimed, and does that more than the others.", Reader((0, 1, "start"))),
    ("This head does not do it more than the others. Measure all heads and take the one that stands out.", Reader((0, 0, "previous"))),
    ("The weights do not come from the parameters of the model: with others they stay as they are.", Fixed(RIGHT)),
    ("The weights of some heads do not come from the parameters of the model: with others they stay as they are.",
     giving(lambda x, maps, c: (x, [maps[0], torch.eye(maps[1].size(-1)).expand_as(maps[1])], c))),
    *(("The weights are those of an earlier call: run the model first, then collect what its blocks have kept.",
       Stale(RIGHT, count)) for count in (16, 70)),
))  # fmt: skip

EXERCISE = Exercise(
    name="explain_head",
    answer="explained",
    judge=Facts(facts, NAMES),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
