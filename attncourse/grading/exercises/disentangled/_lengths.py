"""What a model that copies is seen to do at three lengths, and whether it has learned that."""

import torch
from torch import Tensor

from attncourse.grading.compare import Described
from attncourse.grading.exercises.disentangled._copiers import VOCAB
from attncourse.grading.observe import run
from attncourse.grading.trained import drawn_like, facts_of, share, with_parameters

BACK, LENGTH, LONGER, MOST, THRESHOLD = 3, 16, 32, 10_000, 0.98
FURTHER = range(40, 65)
NAMES = (
    "it is a torch.nn.Module",
    f"it learns at most {MOST:,} numbers",
    f"logits have shape (batch, n, {VOCAB}) and are finite",
    f"accuracy at length {LENGTH} is above {THRESHOLD}",
    f"accuracy at length {LONGER} is above {THRESHOLD}",
    f"accuracy at a length from {FURTHER[0]} to {FURTHER[-1]} is above {THRESHOLD}",
    "a sequence gets the same answer alone and in a batch",
    "the skill sits in the parameters",
    "tokens left unchanged",
)


def facts(model, seed: int) -> dict:
    """What the model does on sequences that it has not seen."""
    g = torch.Generator().manual_seed(seed)
    further = FURTHER[int(torch.randint(len(FURTHER), (), generator=g))]
    tokens = [torch.randint(VOCAB, (37, n), generator=g) for n in (LENGTH, LONGER, further)]

    def judge(model, given) -> tuple:
        logits = model(given.clone())
        shape = tuple(getattr(logits, "shape", ()))
        if shape != (*given.shape, VOCAB):
            return (f"a {type(logits).__name__} of shape {shape}",)
        alone = torch.cat([model(given[k : k + 1].clone()) for k in range(3)])
        model(given)
        return (
            bool(logits.isfinite().all()) or "some are not finite",
            *(run(copies, model, x.to(given.device)) for x in tokens),
            share(alone.argmax(-1), logits[:3].argmax(-1)) > THRESHOLD or "no",
            skill(model, given.clone(), logits.argmax(-1), g),
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
    return accuracy > THRESHOLD or Described(
        f"{looks(said, tokens, right)}: accuracy {accuracy:.2f}"
    )


def looks(said: Tensor, tokens: Tensor, right: Tensor) -> str:
    """What the wrong answers look like. ``right``: the share of right ones at each place."""
    n = tokens.size(1)
    for back in (0, 1, 2, 4, 5, 6, -1, -2, -3, -4):
        ours, theirs = (
            (said[:, back:], tokens[:, : n - back])
            if back >= 0
            else (said[:, :back], tokens[:, -back:])
        )
        if share(ours, theirs) > 0.9:
            where = (
                "the token itself"
                if not back
                else f"what stands {abs(back)} place{'s' * (abs(back) > 1)} "
            )
            return f"it says {where}" + ("" if not back else "back" if back > 0 else "ahead")
    if share(said, said[:1, :1]) > 0.95:
        return "it says one token everywhere"
    known, new = (
        right[: LENGTH - BACK].mean(),
        right[LENGTH - BACK :].mean() if n > LENGTH else torch.tensor(1.0),
    )
    if n > LENGTH and known - new > 0.3:
        return f"the first {LENGTH} places are much better than those behind them"
    if right.mean() > 0.3 and right.min() > right.mean() - 0.3:
        return (
            "it is right more often than not, alike at all places"
            if right.mean() > 0.5
            else "it is wrong more often than right, alike at all places"
        )
    wrong = (right < 0.5).nonzero().flatten().tolist()
    if 0 < len(wrong) <= n // 2 and all(x > 0.9 for k, x in enumerate(right) if k not in wrong):
        return f"some places are never right: {[k + BACK for k in wrong]}"
    return "it does little more than guess" if right.mean() < 0.15 else "it is not there yet"


def skill(model, tokens: Tensor, before: Tensor, g) -> bool | str:
    """True when other parameters copy nothing, but almost the same parameters do.

    With parameters drawn at random, an exchanged token must move logits at places other than three behind it, where
    its copy belongs (or six, or at its own): else ``forward`` knows the order.
    """
    own, every = [p.data for p in model.parameters()], torch.arange(len(tokens))
    place = 2 + every % (LENGTH - 7)  # so that places from 2 before to 5 behind are there
    replaced, moved = tokens.clone(), torch.zeros(8)
    replaced[every, place] = (tokens[every, place] + 5) % VOCAB
    drawn, other = drawn_like(model, g), drawn_like(model, g)
    for factor, numbers in (0, drawn), (1, drawn), (-1, drawn), (1, other):
        others = [factor * p for p in numbers]
        logits = with_parameters(model, others, tokens)
        if share(logits.argmax(-1)[:, BACK:], tokens[:, :-BACK]) > 0.5:
            return (
                f"with all parameters {'drawn at random' if factor else 'set to 0'} it still copies"
            )
        change = (with_parameters(model, others, replaced) - logits).abs().amax(-1).nan_to_num(1.0)
        around = change.gather(1, place[:, None] + torch.arange(-2, 6)).double().mean(0)
        moved += factor**2 * around / around.max().clamp(min=1e-12)
    if moved[[0, 1, 3, 4, 6, 7]].max() < 0.1 * moved[2 + BACK]:
        return "forward knows the order: a token moves the place three behind it and hardly any other, for any parameters"
    nudged = [p * (1 + 1e-3 * x) for p, x in zip(own, drawn, strict=True)]
    for words, numbers in ("all parameters changed by a thousandth", nudged), ("the same", own):
        if share(with_parameters(model, numbers, tokens).argmax(-1), before) < 0.9:
            return f"with {words} it answers something else"
    return True
