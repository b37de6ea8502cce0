"""Exercise train_reversal: a trained model that says sequences backwards, judged on new ones."""

import warnings

import torch
import torch.nn.functional as F
from torch import nn

from attncourse.grading.compare import Described, Raised
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.observe import run

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


@torch.no_grad()
def facts(model, seed: int) -> dict:
    """What the model does on sequences that it has not seen."""
    if not isinstance(model, nn.Module):
        kind = "a class; make an instance" if isinstance(model, type) else type(model).__name__
        return {NAMES[0]: kind}
    numbers = sum(p.numel() for p in model.parameters())
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCAB, (83, LENGTH), generator=generator)
    tokens = tokens.to(next((p.device for p in model.parameters()), tokens.device))
    given = tokens.clone()
    modes = {module: module.training for module in model.modules()}
    try:
        judged = run(judge, model.eval(), given, generator)
    finally:
        for module, mode in modes.items():
            module.training = mode
    judged = (judged,) if isinstance(judged, Raised) else judged
    small = numbers <= MAX_PARAMETERS or Described(f"too many: it learns {numbers:,}")
    seen = dict(zip(NAMES, (True, small, *judged), strict=False))
    return seen | {NAMES[-1]: torch.equal(tokens, given)}


def judge(model, tokens, generator) -> tuple:
    """Shape, accuracy, independence of the batch, and whether other parameters know nothing."""
    logits = model(tokens.clone())
    if not isinstance(logits, torch.Tensor):
        return (f"a {type(logits).__name__}, not a tensor",)
    if logits.shape != (*tokens.shape, VOCAB):
        return (f"shape {tuple(logits.shape)}",)
    said = logits.argmax(dim=-1)
    alone = torch.cat([model(tokens[k : k + 1].clone()) for k in range(3)]).argmax(dim=-1)
    model(tokens)
    return (
        bool(logits.isfinite().all()) or "some are not finite",
        share(said, tokens.flip(1)) > THRESHOLD or describe(model, tokens, logits),
        share(alone, said[:3]) > THRESHOLD or "no",
        judge_skill(model, tokens.clone(), said, generator),
    )


def judge_skill(model, tokens, before, generator):
    """True when other parameters answer nothing, but almost the same parameters do.

    ``before`` is what the model said with its own; it must say the same when it gets them back. With
    parameters drawn at random, a token that is replaced must move more than its place in the answer:
    else ``forward`` knows the order, and the parameters do not.
    """
    own, every = [p.data for p in model.parameters()], range(len(tokens))
    drawn = [torch.randn(p.shape, generator=generator).to(p) for p in own]
    place = torch.arange(len(tokens)) % LENGTH
    replaced = tokens.clone()
    replaced[every, place] = (tokens[every, place] + 7) % VOCAB
    mixes = False
    for name, factors in (("set to 0", (0,)), ("drawn at random", (1, -1))):
        for factor in factors:
            others = [factor * p for p in drawn]
            logits = with_parameters(model, others, tokens)
            if share(logits.argmax(dim=-1), tokens.flip(1)) > 0.5:
                return f"with all parameters {name} it still answers"
            moved = (with_parameters(model, others, replaced) - logits).abs().amax(-1)
            most = moved.max()
            moved[every, LENGTH - 1 - place] = 0
            mixes |= factor != 0 and not moved.max() <= 0.01 * most  # NaN moved
    if not mixes:
        return "forward reorders by hand: a token moves its mirror place only, for any parameters"
    nudged = [p * (1 + 1e-3 * x) for p, x in zip(own, drawn, strict=True)]
    if share(with_parameters(model, nudged, tokens).argmax(dim=-1), before) < 0.9:
        return "with all parameters changed by a thousandth it answers something else"
    again = share(model(tokens.clone()).argmax(dim=-1), before) > 0.9
    return again or "with the same parameters it answers something else later"


def with_parameters(model, numbers, tokens):
    """What a model of any kind (scripted, traced) says with other numbers in its parameters."""
    own = [(p, p.data) for p in model.parameters()]
    try:
        for (p, _), other in zip(own, numbers, strict=True):
            p.data = other
        return model(tokens.clone())
    finally:
        for p, data in own:
            p.data = data


def share(a, b) -> float:
    """Share of the places in which two tensors agree."""
    return (a == b).double().mean().item()


def describe(model, tokens, logits) -> Described:
    """What the wrong answers look like."""
    said, backwards = logits.argmax(dim=-1), tokens.flip(1)
    places = (said == backwards).double().mean(0)
    first, second = places.view(2, -1).mean(1).tolist()
    accuracy, wrong = places.mean().item(), (places < 0.5).nonzero().flatten().tolist()
    looks = {
        "it says the sequence forwards": share(said, tokens),
        "it is one place late": share(said, backwards.roll(1, 1)),
        "it is one place early": share(said, backwards.roll(-1, 1)),
        "it is backwards in the alphabet, not in time": share(said, VOCAB - 1 - tokens),
        "it says the tokens sorted": share(said, tokens.sort(dim=1).values),
        "it says the same token everywhere": share(said, said[:1, :1]),
        "only the second half is right": second * (first < 0.5),
        "only the first half is right": first * (second < 0.5),
    }
    name, fits = max(looks.items(), key=lambda item: item[1])
    order = torch.arange(LENGTH).roll(5)
    if fits > 0.9:
        return Described(f"{name}: accuracy {accuracy:.2f}")
    if torch.allclose(model(tokens[:, order]), logits[:, order], rtol=1e-4, atol=1e-5):
        return Described(f"it does not know the positions: accuracy {accuracy:.2f}")
    if 0 < len(wrong) < LENGTH and all(x > 0.9 or k in wrong for k, x in enumerate(places)):
        return Described(f"most is right, but some positions never are: {wrong}")
    words = "it does little more than guess" if accuracy < 0.2 else "it is not there yet"
    return Described(f"{words}: accuracy {accuracy:.2f}")


WIDTH = VOCAB + LENGTH + VOCAB  # token, position, and room for the token that attention brings


class Attend(nn.MultiheadAttention):
    """Self-attention, called as nn.TransformerEncoderLayer is."""

    def forward(self, x, mask=None):
        return super().forward(x, x, x, attn_mask=mask, need_weights=False)[0]


class Attention(nn.Module):
    """Embeddings and a layer of torch; weights set by hand, so that the check stays quick."""

    def __init__(self, layer=Attend, num_heads=1, mask=None, positions=1.0, **options):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layer = layer(WIDTH, num_heads, **{"batch_first": True} | options)
        self.logits = nn.Linear(WIDTH, VOCAB)
        self.mask = mask
        attention = getattr(self.layer, "self_attn", self.layer)
        tokens, places = slice(VOCAB), slice(VOCAB, VOCAB + LENGTH)
        with torch.no_grad():
            for name, p in self.named_parameters():
                if "norm" not in name:
                    p.zero_()
            self.token.weight[:, tokens] = self.logits.weight[:, -VOCAB:] = torch.eye(VOCAB)
            self.position.weight[:, places] = positions * torch.eye(LENGTH)
            q, k, v = attention.in_proj_weight.view(3, WIDTH, WIDTH)
            for h in range(0, WIDTH, WIDTH // num_heads):
                q[h : h + LENGTH, places] = 99 * torch.eye(LENGTH).flip(1)
                k[h : h + LENGTH, places] = torch.eye(LENGTH)
            v[-VOCAB:, tokens] = torch.eye(VOCAB)
            attention.out_proj.weight.copy_(torch.eye(WIDTH))

    def forward(self, tokens):
        return self.logits(self.layer(self.token(tokens) + self.position.weight, self.mask))


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


def scripted(model):
    """The model as torch.jit.script makes it; newer versions of torch warn about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(model)


ACCEPTED = Accepted(
    multihead_attention_of_torch=Attention(),
    two_heads=Attention(num_heads=2),
    transformer_encoder_layer=Attention(nn.TransformerEncoderLayer, dim_feedforward=8),
    own_attention_with_probabilities=OwnAttention(),
    double_precision=Attention().double(),
    compiled_by_script=scripted(OwnAttention()),
    a_matrix_over_positions=moves(),
)

GUESSES = torch.rand(LENGTH, VOCAB, VOCAB, generator=torch.Generator().manual_seed(3))
MISTAKES = Mistakes(Mistake(says, model) for says, model in (
    ("It is untrained, or it knows a fixed set of sequences by heart. Draw a new batch in every "
     "step, and look at the loss: guessing costs log(20) = 3.00.",
     Forward(lambda t, table: table[torch.arange(LENGTH), t], GUESSES)),
    ("It learned, but not enough: train longer, or with another learning rate.",
     moves(change=lambda x: torch.where((x.argmax(-1) % 4 == 0)[..., None], x.roll(1, -1), x))),
    ("Some positions are never right, the others always: look for a slice or an index that leaves them out.",
     moves(change=lambda x: torch.cat([x[:, :-1], x[:, -1:].roll(1, -1)], dim=1))),
    ("It sorts the tokens; the target is the sequence backwards: tokens.flip(1).",
     Forward(lambda t, table: one_hot(t.sort(dim=1).values) @ table, torch.eye(VOCAB))),
    ("It copies the sequence as it is; the target of position i is token 11 - i: tokens.flip(1).",
     moves(torch.eye(LENGTH))),
    ("The target was one place late: compare with tokens.flip(1), without a shift.",
     moves(MIRROR.roll(1, 0))),
    ("The target was one place early: compare with tokens.flip(1), without a shift.",
     moves(MIRROR.roll(-1, 0))),
    ("It reverses the alphabet (19 - token), not the order.",
     Forward(lambda t, places: places @ one_hot(VOCAB - 1 - t), torch.eye(LENGTH))),
    ("It says one token everywhere. Has the loss become NaN, or do the logits ignore the input?",
     moves(change=torch.zeros_like)),
    ("A causal mask hides what comes later, so the first half of the answer cannot be known.",
     Attention(mask=nn.Transformer.generate_square_subsequent_mask(LENGTH))),
    ("It knows no positions: without position embeddings, attention cannot tell the order.",
     Attention(positions=0.0)),
    ("The batch is read as the sequence: nn.MultiheadAttention needs batch_first=True.",
     Attention(batch_first=False)),
    ("It returns tokens; return logits of shape (batch, 12, 20).", moves(change=lambda x: x.argmax(-1))),
    ("The logits are (batch, vocabulary, position); that order is for cross_entropy only.",
     moves(change=lambda x: x.transpose(1, 2))),
    ("Only one position is answered; return logits for all 12.", moves(change=lambda x: x[:, -1])),
    ("Logits and weights come out together; return the logits alone.", moves(change=lambda x: (x, None))),
    ("Positions and vocabulary are flattened; return logits of shape (batch, 12, 20).",
     moves(change=lambda x: x.flatten(1))),
    ("The size of the training batch is built in; take it from tokens.",
     moves(before=lambda t: t.view(128, LENGTH))),
    ("The model has more than 20,000 parameters. Attention needs few: share them over positions.",
     Forward(lambda t, w: (one_hot(t).flatten(1) @ w.T).unflatten(1, (LENGTH, VOCAB)),
             torch.kron(MIRROR, torch.eye(VOCAB)))),
    ("The answer is written into forward, or it sits where model.parameters() does not see it, "
     "such as in a plain list.", Forward(lambda t: 9.0 * MIRROR @ one_hot(t))),
    ("The answer is written into forward; a parameter only scales it.",
     Forward(lambda t, scale: scale * one_hot(t.flip(1)), torch.ones(()))),
    ("forward puts the tokens in order by hand, with a flip, an index or a fixed matrix; attention should "
     "learn where to look.", Forward(lambda t, table: table[t.flip(1)], torch.eye(VOCAB))),
    ("Some logits are not finite; the training has diverged.",
     moves(change=lambda x: x.masked_fill(x == 0, -torch.inf))),
    ("forward changes the tokens of its caller in place.",
     moves(before=lambda t: t.clamp_(max=VOCAB - 2))),
    ("This is the class; check an instance: check(..., model).", Attention),
    ("This is a function; wrap it in a torch.nn.Module with parameters.", one_hot),
))  # fmt: skip

EXERCISE = Exercise(
    name="train_reversal", answer="model", title="Train a model to read backwards", kind="Train",
    points=3, difficulty=3, minutes=25, needs="section 'What the heads learned' of chapter 3",
    judge=Facts(facts, NAMES), accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "Which token is asked for depends on the position only: the model needs embeddings for "
        "tokens and for positions, and one attention layer without a mask.",
        "x = token(tokens) + position(torch.arange(12)); x = x + attention(norm(x), norm(x), "
        "norm(x)); logits = linear(norm2(x)). Use nn.MultiheadAttention(32, 1, batch_first=True).",
        "Adam with lr=3e-3, 300 steps: tokens = torch.randint(20, (128, 12)); loss = cross_entropy("
        "model(tokens).flatten(0, 1), tokens.flip(1).flatten()).",
    ),
)  # fmt: skip
