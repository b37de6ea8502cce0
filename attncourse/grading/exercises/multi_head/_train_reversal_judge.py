"""The judge of train_reversal: does the model know it, and does it know it by its parameters?"""

from contextlib import contextmanager

import torch
from torch import nn

from attncourse.grading.compare import NotAttempted, Raised, is_stub

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


class Looks(str):
    """What was seen; two with the same words before the colon are the same."""

    def __eq__(self, other):
        return isinstance(other, Looks) and self.partition(":")[0] == other.partition(":")[0]

    def __hash__(self):
        return hash(self.partition(":")[0])


@torch.no_grad()
def facts(model, seed: int) -> dict:
    """What the model does on sequences that it has not seen."""
    if not isinstance(model, nn.Module):
        kind = "a class; make an instance" if isinstance(model, type) else type(model).__name__
        return {NAMES[0]: kind}
    numbers = sum(p.numel() for p in model.parameters())
    tokens = torch.randint(
        VOCAB, (83, LENGTH), generator=torch.Generator().manual_seed(9000 + seed)
    )
    tokens = tokens.to(next((p.device for p in model.parameters()), tokens.device))
    given = tokens.clone()
    modes = {module: module.training for module in model.modules()}
    try:
        judged = judge(model.eval(), given)
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and is_stub(error):
            raise NotAttempted from None
        judged = (Raised.by(error),)
    finally:
        for module, mode in modes.items():
            module.training = mode
    small = numbers <= MAX_PARAMETERS or Looks(f"too many: it learns {numbers:,}")
    seen = dict(zip(NAMES, (True, small, *judged), strict=False))
    return seen | {NAMES[-1]: torch.equal(tokens, given)}


def judge(model, tokens) -> tuple:
    """Shape, accuracy, independence of the batch, and whether other parameters know nothing."""
    logits = model(tokens.clone())
    if not isinstance(logits, torch.Tensor):
        return (f"a {type(logits).__name__}, not a tensor",)
    if logits.shape != (*tokens.shape, VOCAB):
        return (f"shape {tuple(logits.shape)}",)
    said = logits.argmax(dim=-1)
    alone = torch.cat([model(tokens[k : k + 1].clone()) for k in range(3)]).argmax(dim=-1)
    model(tokens)
    finite = bool(logits.isfinite().all()) or "some are not finite"
    accuracy = share(said, tokens.flip(1))
    return (
        finite,
        accuracy > THRESHOLD or describe(model, tokens, logits, accuracy),
        share(alone, said[:3]) > THRESHOLD or "no",
        judge_skill(model, tokens.clone(), said),
    )


def judge_skill(model, tokens, before):
    """True when neither zeros nor random numbers still answer, but almost the same parameters do.

    ``before`` is what the model said with its own; it must say the same when it gets them back.
    """
    g = torch.Generator().manual_seed(1)
    parameters = list(model.parameters())
    drawn = [torch.randn(p.shape, generator=g).to(p) for p in parameters]
    for says, factors in (("set to 0", (0,)), ("drawn at random", (1, -1))):
        for factor in factors:
            with lent(parameters, [factor * p for p in drawn]):
                said = model(tokens.clone()).argmax(dim=-1)
            if share(said, tokens.flip(1)) > 0.5:
                return f"with all parameters {says} it still answers"
    nudged = [p.data * (1 + 1e-3 * x) for p, x in zip(parameters, drawn, strict=True)]
    with lent(parameters, nudged):
        said = model(tokens.clone()).argmax(dim=-1)
    if share(said, before) < 0.9:
        return "with all parameters changed by a thousandth it answers something else"
    again = share(model(tokens.clone()).argmax(dim=-1), before) > 0.9
    return again or "with the same parameters it answers something else later"


@contextmanager
def lent(parameters, others):
    """Other numbers in the parameters for a while, in models of every kind (scripted, traced)."""
    own = [p.data for p in parameters]
    try:
        for p, other in zip(parameters, others, strict=True):
            p.data = other
        yield
    finally:
        for p, data in zip(parameters, own, strict=True):
            p.data = data


def share(a, b) -> float:
    """Share of the places in which two tensors agree."""
    return (a == b).double().mean().item()


def describe(model, tokens, logits, accuracy: float) -> Looks:
    """What the wrong answers look like."""
    said, backwards, half = logits.argmax(dim=-1), tokens.flip(1), LENGTH // 2
    first, second = (share(said[:, k], backwards[:, k]) for k in (slice(half), slice(half, None)))
    looks = {
        "it says the sequence forwards": share(said, tokens),
        "it is one place late": share(said, backwards.roll(1, 1)),
        "it is one place early": share(said, backwards.roll(-1, 1)),
        "it is backwards in the alphabet, not in time": share(said, VOCAB - 1 - tokens),
        "it says the same token everywhere": share(said, said[:1, :1]),
        "only the second half is right": second * (first < 0.5),
        "only the first half is right": first * (second < 0.5),
    }
    name, fits = max(looks.items(), key=lambda item: item[1])
    order = torch.arange(LENGTH).roll(5)
    if fits > 0.9:
        words = name
    elif torch.allclose(model(tokens[:, order]), logits[:, order], rtol=1e-4, atol=1e-5):
        words = "it does not know the positions"
    else:
        words = "it does little more than guess" if accuracy < 0.2 else "it is not there yet"
    return Looks(f"{words}: accuracy {accuracy:.2f}")
