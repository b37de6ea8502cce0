"""The judge of honest_plot: are these the weights that made this output?"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn

from attncourse import spec
from attncourse.grading.compare import NotAttempted, Raised, is_stub

EMBED_DIM, NUM_HEADS, DROPOUT, BATCH, N = 12, 3, 0.4, 2, 7


class AsFound(nn.Module):
    """The layer of the statement: only the output comes out."""

    def __init__(self, embed_dim, num_heads, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def scores(self, x, mask=None):
        q, k = self.split(self.q_proj(x)), self.split(self.k_proj(x))
        scores = q @ k.transpose(2, 3) / q.size(-1) ** 0.5
        return scores if mask is None else scores.masked_fill(~mask, float("-inf"))

    def mix(self, weights, x):
        return self.out_proj((weights @ self.split(self.v_proj(x))).transpose(1, 2).flatten(2))

    def forward(self, x, mask=None):
        return self.mix(self.dropout(torch.softmax(self.scores(x, mask), dim=-1)), x)


PAIR = ("shapes", "the weights make the output", "the weights are right", "gradients arrive")
ALONE = ("heads are dropped whole",)
DRAWS = ("each weight is dropped on its own, with probability p",)
CALLS, COPIES = 3, 16  # enough draws that no honest dropout is far off
MODES = ("evaluation", "training")
MASKS = ("no mask", "a mask")
NAMES = (
    "(output, weights) comes out of an instance of the class",
    *(f"{mode}, {name}: {what}" for mode in MODES for name in MASKS for what in PAIR),
    *(f"training, many calls: {what}" for what in DRAWS),
    *(f"training, one position: {what}" for what in ALONE),
    "forward leaves the mode of the layer as it is",
    "x and mask left unchanged",
)


@lru_cache(maxsize=32)
def situation(seed: int):
    """Input, parameters, and for each mask the weights that the definition finds."""
    g = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(BATCH, N, EMBED_DIM, generator=g)
    params = {}
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        params[f"{name}.weight"] = torch.randn(EMBED_DIM, EMBED_DIM, generator=g) / EMBED_DIM**0.5
        params[f"{name}.bias"] = torch.randn(EMBED_DIM, generator=g)
    own = torch.eye(N, dtype=torch.bool)  # in each row one key is hidden and one is visible
    mask = (torch.rand(N, N, generator=g) < 0.5) & ~own | own.roll(1, 0)
    q, k = (
        spec.split_heads(F.linear(x, params[f"{p}.weight"], params[f"{p}.bias"]), NUM_HEADS)
        for p in ("q_proj", "k_proj")
    )
    masks = dict(zip(MASKS, (None, mask), strict=True))
    true = {name: spec.scaled_dot_product_attention(q, k, k, m)[1] for name, m in masks.items()}
    return x, params, mask, true


def facts(layer, seed: int) -> dict:
    """What the pair (output, weights) shows in evaluation and training, with and without a mask."""
    x, params, mask, true = situation(seed)
    if isinstance(layer, nn.Module):
        return {NAMES[0]: "an instance"}
    try:
        module = layer(EMBED_DIM, NUM_HEADS, DROPOUT)
        module.load_state_dict(params, strict=False)
        first = module.eval()(x.clone())
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and is_stub(error):
            raise NotAttempted from None
        return {NAMES[0]: Raised.by(error)}
    if not isinstance(first, tuple | list) or len(first) != 2:
        return {NAMES[0]: "one result" if isinstance(first, torch.Tensor) else "no pair"}
    seen = {NAMES[0]: True}
    kept, changed = set(), set()
    for mode in MODES:
        for name, inputs in (("no mask", (x,)), ("a mask", (x, mask))):
            training = mode == "training"
            module.train(training)
            args = [given.clone() for given in inputs]
            torch.manual_seed(seed)
            judged = _attempt(PAIR, judge_pair, module, args, inputs, true, params, training)
            seen |= {f"{mode}, {name}: {what}": fact for what, fact in judged.items()}
            kept |= {part.training - training for part in module.modules()}
            changed |= changes(args, inputs)
    judged = _attempt(DRAWS, judge_draws, module, x)
    seen |= {f"training, many calls: {what}": fact for what, fact in judged.items()}
    judged = _attempt(ALONE, judge_one_position, module, x[:1, :1].clone(), params)
    seen |= {f"training, one position: {what}": fact for what, fact in judged.items()}
    switches = {-1: "it switches to evaluation", 1: "it switches to training"}
    switched = " and ".join(says for step, says in switches.items() if step in kept)
    spoiled = " and ".join(sorted(changed, reverse=True))
    left = (switched or True, f"{spoiled} changed" if spoiled else True)
    return seen | dict(zip(NAMES[-2:], left, strict=True))


def changes(args, inputs) -> set:
    """Names of the inputs that are no longer what was given."""
    named = zip(("x", "mask"), args, inputs, strict=False)
    return {name for name, arg, given in named if not torch.equal(arg, given)}


def _attempt(names, judge, *args) -> dict:
    """The facts of a judge; where the module raises, the first of them names the error."""
    try:
        return dict(zip(names, judge(*args), strict=True))
    except (Exception, SystemExit) as error:
        return {names[0]: Raised.by(error)}


def judge_pair(module, args, inputs, true, params, training: bool) -> tuple:
    """The facts of `PAIR` for one call: do the weights remake the output, and are they right?

    ``args`` are the copies of ``inputs`` that the module may spoil.
    """
    x, *mask = inputs
    output, weights = module(*args)
    expected = true[MASKS[len(mask)]]
    if output.shape != x.shape or weights.shape != expected.shape:
        return (f"output {tuple(output.shape)}, weights {tuple(weights.shape)}",) * len(PAIR)
    value = F.linear(x, params["v_proj.weight"], params["v_proj.bias"])
    value = value.unflatten(-1, (NUM_HEADS, -1)).transpose(1, 2)
    merged = (weights.detach().float() @ value).transpose(1, 2).flatten(2)
    made = F.linear(merged, params["out_proj.weight"], params["out_proj.bias"])
    same = torch.allclose(made, output.float(), rtol=1e-3, atol=1e-3)
    weights = weights.detach().to(expected.dtype)
    right = judge_mask(weights, true, *mask, training) if mask else True
    if right is True:
        right = judge_weights(weights, expected, training)
    spoiled = "x" in changes(args, inputs)  # then autograd may refuse to look back
    return True, same, right, "x was changed" if spoiled else gradients_arrive(output, module)


def judge_mask(weights, true, mask, training: bool):
    """True when hidden keys have no weight, else what the weights follow instead of the mask."""
    if bool((weights[..., ~mask] == 0).all()):
        return True
    if bool((weights[..., mask] == 0).all()):
        return "only hidden keys have a weight"
    if bool((weights[..., ~mask.T] == 0).all()):
        return "they follow the mask with its axes exchanged"
    scale = 1 - DROPOUT if training else 1.0
    unmasked = torch.isclose(weights * scale, true["no mask"], atol=1e-4) | (weights == 0)
    return "they are those without a mask" if bool(unmasked.all()) else "hidden keys have a weight"


def judge_weights(weights, true, training: bool):
    """True for the softmax of the visible scores; in training some are 0, the rest enlarged."""
    if not training:
        sums = torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-4)
        right = torch.allclose(weights, true, atol=1e-4)
        return right or ("no" if sums else "rows do not sum to 1")
    kept = torch.where(weights == 0, 0.0, true)
    if not bool((weights[true > 0] == 0).any()):
        return "nothing is dropped" if torch.allclose(weights, kept, atol=1e-4) else "no"
    if torch.allclose(weights, kept, atol=1e-4):
        return "the kept weights are not enlarged"
    return torch.allclose(weights, kept / (1 - DROPOUT), atol=1e-4) or "too large or too small"


def judge_draws(module, x) -> tuple:
    """Over many draws: are weights dropped together, and how many of them?

    The means along an axis of n independent draws vary as p (1 - p) / n; n times as much where all n
    are one draw.
    """
    with torch.no_grad():
        draws = [module.train()(x.repeat(COPIES, 1, 1))[1] == 0 for _ in range(CALLS)]
    shape = (COPIES * BATCH, NUM_HEADS, N, N)
    if draws[0].shape != shape:
        return (f"weights {tuple(draws[0].shape)} for {COPIES * BATCH} samples",)
    dropped = torch.stack(draws).double()
    rate = dropped.mean().item()
    if rate in (0, 1):
        return (f"{'everything' if rate else 'nothing'} is dropped",)
    axes = dict(enumerate(("calls", "samples", "heads", "queries", "keys")))
    spread = rate * (1 - rate)
    ratios = {k: dropped.mean(k).var().item() * dropped.size(k) / spread for k in axes}
    alike = [axes[k] for k, ratio in ratios.items() if ratio > 1 + (dropped.size(k) - 1) / 4]
    if alike:
        return (f"one draw serves all {' and '.join(alike)}",)
    if min(ratios.values()) < 0.5:
        return ("always the same number is dropped",)
    if abs(rate - DROPOUT) < 0.04:
        return (True,)
    if abs(rate - 1 + DROPOUT) < 0.04:
        return ("as many are dropped as should be kept",)
    return (f"too {'many' if rate > DROPOUT else 'few'} are dropped",)


def gradients_arrive(output, module):
    """True when the output teaches all four projections, else which of them learn nothing."""
    names = ("q_proj", "k_proj", "v_proj", "out_proj")
    wanted = [getattr(module, name).weight for name in names]
    if not output.requires_grad:
        return "none at all"
    grads = torch.autograd.grad(output.square().sum(), wanted, allow_unused=True)
    lost = [n for n, g in zip(names, grads, strict=True) if g is None or g.abs().max() <= 1e-6]
    return f"none reaches {' and '.join(lost)}" if lost else True


def judge_one_position(module, x, params) -> tuple:
    """With one position a head's weight is 1: dropout keeps all of a head's value, or nothing."""
    with torch.no_grad():
        module.train().out_proj.weight.copy_(torch.eye(EMBED_DIM))
        module.out_proj.bias.zero_()
        value = F.linear(x, params["v_proj.weight"], params["v_proj.bias"])
        output = module(x.repeat(4, 1, 1))[0]
        heads, value = (y.expand_as(output).unflatten(-1, (NUM_HEADS, -1)) for y in (output, value))
        # the multiple of the value that is nearest; dividing would fail where a value is near 0
        multiple = (heads * value).sum(-1, keepdim=True) / value.square().sum(-1, keepdim=True)
    return (bool((heads - multiple * value).abs().max() < 1e-3),)
