"""What a model that copies is seen to do at three lengths, and whether it has learned that."""

import torch
from torch import Tensor

from attncourse.grading.compare import Described
from attncourse.grading.exercises.disentangled._copiers import VOCAB
from attncourse.grading.inputs import seeded
from attncourse.grading.observe import run
from attncourse.grading.trained import drawn_like, facts_of, share, with_parameters

BACK, MOST, THRESHOLD = 3, 10_000, 0.95
ELSEWHERE = [k for k in range(16) if k not in (0, 3, 6, 9, 12)]  # not where shifts by three lead
LENGTHS = 16, 32, 64  # of the training, and longer ones
LENGTH = LENGTHS[0]
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MOST:,} numbers",
    f"logits have shape (batch, n, {VOCAB}) and are finite",
    *(f"accuracy at length {n} is above {THRESHOLD}" for n in LENGTHS),
    "a sequence gets the same answer alone and in a batch",
    "the skill sits in the parameters",
    "tokens left unchanged",
)


def facts(model, seed: int) -> dict:
    """What the model does on sequences that it has not seen."""
    tokens = [torch.randint(VOCAB, (37, n), generator=seeded(seed, n)) for n in LENGTHS]

    def judge(model, given) -> tuple:
        logits = model(given.clone())
        shape = tuple(getattr(logits, "shape", ()))
        if shape != (*given.shape, VOCAB) or not isinstance(logits, Tensor):
            return (f"a {type(logits).__name__} of shape {shape}",)
        alone = torch.cat([model(given[k : k + 1].clone()) for k in range(3)])
        model(given)
        return (
            bool(logits.isfinite().all()) or "some are not finite",
            *(run(copies, model, x.to(given.device)) for x in tokens),
            share(alone.argmax(-1), logits[:3].argmax(-1)) > THRESHOLD or "no",
            skill(model, given.clone(), logits.argmax(-1), seeded(seed, "parameters")),
        )

    return facts_of(model, NAMES, MOST, tokens[0], judge)


def copies(model, tokens: Tensor) -> bool | Described:
    """True when it says at every place what stood three places back; else what it says."""
    logits = model(tokens.clone())
    if logits.shape != (*tokens.shape, VOCAB):
        return Described(f"at this length the shape is another: {tuple(logits.shape)}")
    said = logits.argmax(-1)
    right = (said[:, BACK:] == tokens[:, :-BACK]).double().mean(0)
    accuracy = right.mean().item()
    if accuracy > THRESHOLD:
        return True
    return Described(f"{looks(model, tokens, logits, right)}: accuracy {accuracy:.2f}")


def looks(model, tokens: Tensor, logits: Tensor, right: Tensor) -> str:
    """What the wrong answers look like. ``right``: the share of right ones at each place from the third on."""
    n, said = tokens.size(1), logits.argmax(-1)
    for back in (0, 1, 2, 4, 5, 6, -1, -2, -3, -4):
        if (
            share(
                said[:, max(back, 0) : n + min(back, 0)],
                tokens[:, max(-back, 0) : n - max(back, 0)],
            )
            > 0.9
        ):
            places = f"{abs(back)} place{'s' * (abs(back) > 1)}"
            return (
                f"it says what stands {places} {'back' if back > 0 else 'ahead'}"
                if back
                else "it says the token itself"
            )
    if share(said, said[:1, :1]) > 0.95:
        return "it says one token everywhere"
    if n > LENGTH and right[7:13].mean() - right[16:22].mean() > 0.3:
        return f"the first {LENGTH} places are much better than those behind them"
    if right.mean() < 0.9 and (blind := unseen(model, tokens, logits)):
        return blind
    if 0.3 < right.mean() < 0.9 and (alike := also_read(model, tokens)):
        return alike
    wrong = (right < 0.5).nonzero().flatten().tolist()
    if 0 < len(wrong) <= n // 2 and all(x > 0.9 for k, x in enumerate(right) if k not in wrong):
        return f"some places are never right: {[k + BACK for k in wrong[:8]]}"
    if right.mean() > 0.5:
        return "it is right more often than not"
    return "it does little more than guess" if right.mean() < 0.15 else "it is mostly wrong"


def unseen(model, tokens: Tensor, logits: Tensor) -> str:
    """Which change of the order of the tokens it does not see: all, before and after, or near and far."""

    def same(order: Tensor, at=slice(None)) -> bool:
        return torch.allclose(
            model(tokens[:, order])[:, at], logits[:, order][:, at], rtol=1e-3, atol=1e-4
        )

    order = torch.arange(tokens.size(1))
    if same(order * 5 % len(order)):  # no shift: a convolution around the end knows places, too
        return "it does not know the places"
    if same(order.flip(0)):
        return "it knows how far a token is, and not on which side"
    last, other = len(order) - 1, tokens.clone()
    other[:, last - BACK] = (other[:, last - BACK] + 5) % VOCAB
    if torch.allclose(model(other)[:, last], logits[:, last], rtol=1e-3, atol=1e-4):
        return "it does not read the token three places back"
    order[[last - BACK, last - 9]] = order[[last - 9, last - BACK]]
    if same(order, last):
        return "it takes a token nine places back for the one three places back"
    return ""


def also_read(model, tokens: Tensor) -> str:
    """Which other token moves the logits in the middle about as much as the one three places back, in most rows."""
    n, rows = tokens.size(1), tokens[:8]
    middle, each = n // 2, torch.arange(n)
    others = rows[:, None].repeat(1, n, 1)
    others[:, each, each] = (others[:, each, each] + 5) % VOCAB
    seen = model(others.flatten(0, 1))[:, middle].unflatten(0, (len(rows), n))
    moved = (seen - model(rows)[:, None, middle]).abs().amax(-1)
    moved[:, middle] = 0  # each may read itself
    own = moved[:, [middle - BACK]]
    often = ((moved > own / 2) & (own > moved / 2)).double().mean(0)
    often[middle - BACK] = 0
    k = middle - int(often.argmax())
    if often.max() < 0.75:
        return ""
    return f"it reads the token {abs(k)} place{'s' * (abs(k) > 1)} {'back' if k > 0 else 'ahead'} like the one three places back"


def skill(model, tokens: Tensor, before: Tensor, g) -> bool | str:
    """True when other parameters copy nothing, but almost the same parameters do.

    With random parameters, large or small, an exchanged token must move logits at places other than three after
    it, where its copy belongs (or six, or at its own): else ``forward`` knows the order. Small ones show what is built
    in: where every score is about 0, attention reads all places alike.
    """
    own, drawn, other = [p.data for p in model.parameters()], *(drawn_like(model, g) for _ in "ab")
    place = torch.arange(len(tokens)) % (LENGTH - BACK)
    for factors in (0,), (1, -1, 1), (0.1, -0.1, 0.1):
        moved = torch.zeros(LENGTH, dtype=torch.float64)
        for factor, numbers in zip(factors, (drawn, drawn, other), strict=False):
            others = [factor * p for p in numbers]
            logits = with_parameters(model, others, tokens)
            if share(logits.argmax(-1)[:, BACK:], tokens[:, :-BACK]) > 0.5:
                how = "drawn at random" if factor else "set to 0"
                return f"with all parameters {how} it still copies"
            moved += moves(model, tokens, logits, place)
        if moved[ELSEWHERE].max() < 0.3 * moved[BACK]:
            return "forward knows the order: a token moves the place three after it and hardly any other, for any parameters"
    nudged = [p * (1 + 1e-3 * x) for p, x in zip(own, drawn, strict=True)]
    for words, numbers in ("the same", own), ("all parameters changed by a thousandth", nudged):
        if share(with_parameters(model, numbers, tokens).argmax(-1), before) < 0.9:
            return f"with {words} it answers something else"
    return True


def moves(model, tokens: Tensor, logits: Tensor, place: Tensor) -> Tensor:
    """How much logits move at a token that is exchanged, one place after it and so on, around the end; 1 is the most."""
    replaced, every = tokens.clone(), torch.arange(len(tokens))
    replaced[every, place] = (tokens[every, place] + 5) % VOCAB
    change = (model(replaced) - logits).abs().amax(-1).nan_to_num(1.0).double().cpu()
    around = change.gather(1, (place[:, None] + torch.arange(LENGTH)) % LENGTH).mean(0)
    return around / around.max().clamp(min=1e-12)
