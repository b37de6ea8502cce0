"""Exercise train_reversal: a trained model that says sequences backwards, judged on new ones."""

import warnings
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.compare import Described
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistake, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.trained import drawn_like, facts_of, share, with_parameters

VOCAB, LENGTH, MAX_PARAMETERS, THRESHOLD = 20, 12, 20_000, 0.99
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MAX_PARAMETERS} numbers",
    "logits have shape (batch, 12, 20) and are finite",
    f"accuracy on new sequences is above {THRESHOLD}",
    "a sequence gets the same answer alone and in a batch",
    "the skill sits in the parameters",
    "tokens left unchanged",
)


def facts(model, seed: int) -> dict:
    """What the model does on sequences that it has not seen."""
    tokens = torch.randint(VOCAB, (83, LENGTH), generator=seeded(seed))
    rest = partial(judge, generator=seeded(seed, "parameters"))
    return facts_of(model, NAMES, MAX_PARAMETERS, tokens, rest)


def judge(model, tokens, generator) -> tuple:
    """Shape, accuracy, independence of the batch, and whether other parameters know nothing."""
    given, tokens = tokens, tokens.clone()
    logits = model(tokens.clone())
    shape = tuple(getattr(logits, "shape", ()))
    if shape != (*tokens.shape, VOCAB):
        return (f"a {type(logits).__name__} of shape {shape}",)
    said = logits.argmax(dim=-1)
    alone = torch.cat([model(tokens[k : k + 1].clone()) for k in range(3)]).argmax(dim=-1)
    again = share(model(given).argmax(dim=-1), said) > THRESHOLD  # here it may change them
    return (
        bool(logits.isfinite().all()) or "some are not finite",
        share(said, tokens.flip(1)) > THRESHOLD or describe(model, tokens, logits),
        share(alone, said[:3]) > THRESHOLD
        or ("no" if again else "no; asked twice, it answers differently"),
        judge_skill(model, tokens.clone(), said, generator),
    )


def judge_skill(model, tokens, before, generator):
    """True when other parameters answer nothing, but almost the same parameters do.

    With parameters drawn at random, a token that is replaced must move more than its place in the
    answer: else ``forward`` knows the order. ``before`` is what the model says with its own parameters.
    """
    own, every = [p.data for p in model.parameters()], range(len(tokens))
    drawn = drawn_like(model, generator)
    place, replaced = torch.arange(len(tokens)) % LENGTH, tokens.clone()
    mixes = moves = False
    replaced[every, place] = (tokens[every, place] + 7) % VOCAB
    for factor in (0, 1, -1):
        others = [factor * p for p in drawn]
        logits = with_parameters(model, others, tokens)
        if share(logits.argmax(dim=-1), tokens.flip(1)) > 0.5:
            return f"with all parameters {'drawn at random' if factor else 'set to 0'} it still answers"
        moved, kinds = change(logits, with_parameters(model, others, replaced))
        most, moves = moved.max(), moves or bool(moved.any() or kinds.any())
        for x in (moved, kinds):
            x[every, LENGTH - 1 - place] = 0
        mixes |= factor != 0 and bool(moved.max() > 0.01 * most or kinds.any())
    if not moves:
        return "with parameters drawn at random, no token changes anything"
    if not mixes:
        return "with parameters drawn at random, a token that is exchanged changes its own place in the answer only"
    nudged = [p * (1 + 1e-3 * x) for p, x in zip(own, drawn, strict=True)]
    for words, numbers in ("all parameters changed by a thousandth", nudged), ("the same", own):
        if share(with_parameters(model, numbers, tokens).argmax(dim=-1), before) < 0.9:
            return f"with {words} it answers something else"
    return True


def change(before, after) -> tuple:
    """For each place how far the logits move, and whether some become NaN or infinite, or cease to be."""
    moved = (after - before).nan_to_num(0.0, 0.0, 0.0).abs().amax(-1)
    return moved, (after.isfinite() != before.isfinite()).any(-1)


def describe(model, tokens, logits) -> Described:
    """What the wrong answers look like."""
    said, backwards = logits.argmax(dim=-1), tokens.flip(1)
    places = (said == backwards).double().mean(0)
    accuracy, order = f": accuracy {places.mean().item():.2f}", torch.tensor(SHUFFLED)
    looks = {
        "it says the sequence forwards": tokens,
        "it is one place late": backwards.roll(1, 1),
        "it is one place early": backwards.roll(-1, 1),
        "it is backwards in the alphabet, not in time": VOCAB - 1 - tokens,
        "it says the tokens sorted": tokens.sort(dim=1).values,
        "it says the tokens sorted, the largest first": tokens.sort(dim=1, descending=True).values,
        "it says the same token everywhere": said[:1, :1],
    }
    for words, other in looks.items():
        if share(said, other) > 0.9:
            return Described(words + accuracy)
    if torch.allclose(model(tokens[:, order]), logits[:, order], rtol=1e-4, atol=1e-5):
        return Described(f"it does not know the positions{accuracy}")
    same = (
        (said[:, :, None] == tokens[:, None]).double().mean(0)
    )  # of which place says each place the token?
    of = same.argmax(1).tolist()
    if same.amax(1).min() > 0.9 and of != list(range(LENGTH))[::-1]:
        return Described(f"it says the tokens in another order: those at positions {of}")
    never = [t for t in range(VOCAB) if (said == backwards)[backwards == t].double().mean() < 0.1]
    if (
        0 < len(never) < VOCAB / 2
        and (said == backwards)[
            ~torch.isin(backwards, torch.tensor(never, device=said.device))
        ].all()
    ):
        return Described(f"all is right but some tokens, which it never says: {never}")
    first, second = places.view(2, -1).mean(1)
    if second > 0.9 > 0.5 > first:
        return Described(f"only the second half is right{accuracy}")
    wrong = (places < 0.5).nonzero().flatten().tolist()
    if 0 < len(wrong) < LENGTH and all(x > 0.9 or k in wrong for k, x in enumerate(places)):
        return Described(f"most is right, but some positions never are: {wrong}")
    words = "it does little more than guess" if places.mean() < 0.2 else "it is not there yet"
    return Described(words + accuracy)


SHUFFLED = 5, 0, 7, 2, 11, 4, 9, 1, 3, 10, 6, 8  # by no rule that a model could follow by chance
WIDTH = VOCAB + LENGTH + VOCAB  # token, position, and room for the token that attention brings


class Attention(nn.Module):
    """Embeddings and a layer of torch; weights set by hand, so that the check stays quick."""

    def __init__(self, layer=nn.MultiheadAttention, heads=1, mask=None, positions=1.0, **options):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layer = layer(WIDTH, heads, **{"batch_first": True} | options)
        self.logits, self.mask = nn.Linear(WIDTH, VOCAB), mask
        tokens, places = slice(VOCAB), slice(VOCAB, VOCAB + LENGTH)
        attention = getattr(self.layer, "self_attn", self.layer)
        for name, p in self.named_parameters():
            p.data *= "norm" in name
        self.token.weight.data[:, tokens] = self.logits.weight.data[:, -VOCAB:] = torch.eye(VOCAB)
        self.position.weight.data[:, places] = positions * torch.eye(LENGTH)
        q, k, v = attention.in_proj_weight.data.view(3, WIDTH, WIDTH)
        for h in range(0, WIDTH, WIDTH // heads):
            q[h : h + LENGTH, places] = 99 * torch.eye(LENGTH).flip(1)
            k[h : h + LENGTH, places] = torch.eye(LENGTH)
        v[-VOCAB:, tokens] = torch.eye(VOCAB)
        attention.out_proj.weight.data = torch.eye(WIDTH)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        alone = isinstance(self.layer, nn.MultiheadAttention)
        return self.logits(self.layer(x, x, x, attn_mask=self.mask)[0] if alone else self.layer(x))


class OwnAttention(nn.Module):
    """One head of einsum with its own parameters."""

    def __init__(self):
        super().__init__()
        self.ask = nn.Parameter(50 * torch.eye(LENGTH).flip(0))
        self.answer = nn.Parameter(torch.eye(LENGTH))
        self.say = nn.Parameter(torch.eye(VOCAB))

    def forward(self, tokens):
        weights = torch.softmax(torch.einsum("nd,md->nm", self.ask, self.answer), dim=-1)
        return torch.log(torch.einsum("nm,bmv->bnv", weights, self.say[tokens]) + 1e-9)


class Forward(nn.Module):
    """Any parameters, and any function of them and of the tokens."""

    def __init__(self, function, *parameters):
        super().__init__()
        self.function, self.numbers = function, nn.ParameterList(parameters)

    def forward(self, tokens):
        return self.function(tokens, *self.numbers)


def one_hot(tokens):
    return F.one_hot(tokens, VOCAB).float()


MIRROR = torch.eye(LENGTH).flip(1)


def moves(matrix=MIRROR, change=lambda logits: logits, before=lambda tokens: tokens):
    """Logits at position i are the one-hot token at the position that row i of a matrix names."""
    return Forward(lambda t, places: change(places @ one_hot(before(t))), 9.0 * matrix)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer versions of torch warn
    compiled = torch.jit.script(OwnAttention())
ACCEPTED = Accepted(
    multihead_attention_of_torch=Attention(),
    two_heads=Attention(heads=2),
    transformer_encoder_layer=Attention(nn.TransformerEncoderLayer, dim_feedforward=8),
    own_attention_with_probabilities=OwnAttention(),
    double_precision=Attention().double(),
    compiled_by_script=compiled,
    a_matrix_over_positions=moves(),
)

LATER = nn.Transformer.generate_square_subsequent_mask(LENGTH)
GUESSES = torch.rand(LENGTH, VOCAB, VOCAB, generator=torch.Generator().manual_seed(3))
MISTAKES = Mistakes(Mistake(says, model) for says, model in (
    ("This is the class; check an instance.", Attention),
    ("This is a function; wrap it in a torch.nn.Module with parameters.", one_hot),
    ("A causal mask hides the end, where the answer starts.", Attention(mask=LATER)),
    ("It knows no positions: without embeddings of them attention sees no order.", Attention(positions=0.0)),
    ("The batch is read as the sequence; set batch_first=True.", Attention(batch_first=False)),
    ("It copies the sequence as it is; the target is tokens.flip(1).", moves(torch.eye(LENGTH))),
    ("It says the tokens in a fixed order, but not backwards: the target is tokens.flip(1).", moves(torch.eye(LENGTH).roll(6, 0))),
    ("It reverses the alphabet (19 - token), not the order.",
     moves(torch.eye(LENGTH), before=lambda t: VOCAB - 1 - t)),
    ("The target was one place late: compare with tokens.flip(1), without a shift.", moves(MIRROR.roll(1, 0))),
    ("The target was one place early: compare with tokens.flip(1), without a shift.", moves(MIRROR.roll(-1, 0))),
    ("The batch of the training is built in; read it from tokens.", moves(before=lambda t: t.view(128, LENGTH))),
    ("forward changes the tokens of its caller in place.", moves(before=lambda t: t.clamp_(max=VOCAB - 2))),
    *((says, moves(change=change)) for says, change in (
        ("It is right in many places, but not in enough: train longer, or with another learning rate.",
         lambda x: torch.where(((x.argmax(-1) + torch.arange(LENGTH)) % 4 == 0)[..., None], x.roll(1, -1), x)),
        ("Some positions are never right, the others always: does a slice or an index leave them out?",
         lambda x: torch.cat([x[:, :-1], x[:, -1:].roll(1, -1)], dim=1)),
        ("It says one token everywhere. Is the loss NaN, or do the logits ignore the input?", torch.zeros_like),
        ("It returns tokens; return logits of shape (batch, 12, 20).", lambda x: x.argmax(-1)),
        ("The logits are (batch, vocabulary, position), as for cross_entropy.", lambda x: x.transpose(1, 2)),
        ("Only one position is answered; return logits for all 12.", lambda x: x[:, -1]),
        ("Logits and weights come out together; return the logits alone.", lambda x: (x, None)),
        ("Positions and vocabulary are flattened; return (batch, 12, 20).", lambda x: x.flatten(1)),
        ("Some tokens are never said, all others are right. Do the logits reach all 20, and were all drawn in the training?",
         lambda x: x.masked_fill(torch.arange(VOCAB) == 7, -99.0)),
        ("The answer differs from one call to the next: something random is left in forward in evaluation mode.",
         lambda x: x + 8 * torch.randn_like(x)),
        ("Some logits are not finite. Has the training diverged?", lambda x: x.masked_fill(x == 0, -torch.inf)),
    )),
    *((says, Forward(function, *parameters)) for says, function, *parameters in (
        ("It does little more than guess on new sequences. Is it trained, with a new batch in every step and tokens.flip(1) "
         "as the target? Guessing has a loss of log(20) = 3.00.", lambda t, table: table[torch.arange(LENGTH), t], GUESSES),
        *(("It sorts the tokens; the target is tokens.flip(1).",
           lambda t, table, down=down: one_hot(t.sort(dim=1, descending=down).values) @ table, torch.eye(VOCAB))
          for down in (False, True)),
        ("The model has more than 20,000 parameters; share them over positions.",
         lambda t, w: (one_hot(t).flatten(1) @ w).view(-1, LENGTH, VOCAB), torch.kron(MIRROR, torch.eye(VOCAB))),
        ("The answer is written into forward, or it sits where model.parameters() does not see it.",
         lambda t: 9.0 * MIRROR @ one_hot(t)),
        ("The answer is written into forward; a parameter only scales it.",
         lambda t, scale: scale * one_hot(t.flip(1)), torch.ones(())),
        *(("With random parameters, a token still changes nothing but its own place in the answer: the order is in forward, as a "
           "flip, an index or a fixed matrix. Attention should learn it.", wrong, torch.eye(VOCAB))
          for wrong in (lambda t, table: table[t.flip(1)], lambda t, table: table[t.flip(1)].sqrt())),
    )),
))  # fmt: skip

EXERCISE = Exercise(
    name="train_reversal",
    answer="model",
    judge=Facts(facts, NAMES),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
