"""Exercise 03.honest_plot: return the weights that made the output, not others."""

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn

from attncourse import spec
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.observe import NotAttempted, Raised, is_stub

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
MODES = ("evaluation", "training")
MASKS = ("no mask", "a mask")
NAMES = (
    "(output, weights) comes out of an instance of the class",
    *(f"{mode}, {name}: {what}" for mode in MODES for name in MASKS for what in PAIR),
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
        return {NAMES[0]: Raised(type(error).__name__, str(error))}
    if not isinstance(first, tuple | list) or len(first) != 2:
        return {NAMES[0]: "one result" if isinstance(first, torch.Tensor) else "no pair"}
    seen = {NAMES[0]: True}
    kept, unchanged = set(), True
    for mode in MODES:
        for name, inputs in (("no mask", (x,)), ("a mask", (x, mask))):
            training = mode == "training"
            module.train(training)
            args = [given.clone() for given in inputs]
            torch.manual_seed(seed)
            judged = _attempt(PAIR, judge_pair, module, args, true[name], params, training)
            seen |= {f"{mode}, {name}: {what}": fact for what, fact in judged.items()}
            kept |= {part.training - training for part in module.modules()}
            unchanged &= all(map(torch.equal, args, inputs))
    judged = _attempt(ALONE, judge_one_position, module, x[:1, :1].clone(), params)
    seen |= {f"training, one position: {what}": fact for what, fact in judged.items()}
    switches = {-1: "it switches to evaluation", 1: "it switches to training"}
    changes = " and ".join(says for step, says in switches.items() if step in kept)
    return seen | dict(zip(NAMES[-2:], (changes if changes else True, unchanged), strict=True))


def _attempt(names, judge, *args) -> dict:
    """The facts of a judge; where the module raises, the first of them names the error."""
    try:
        return dict(zip(names, judge(*args), strict=True))
    except (Exception, SystemExit) as error:
        return {names[0]: Raised(type(error).__name__, str(error))}


def judge_pair(module, args, true, params, training: bool) -> tuple:
    output, weights = module(*args)
    if output.shape != args[0].shape or weights.shape != true.shape:
        return (f"output {tuple(output.shape)}, weights {tuple(weights.shape)}",) * len(PAIR)
    value = F.linear(args[0], params["v_proj.weight"], params["v_proj.bias"])
    merged = spec.merge_heads(weights.detach().float() @ spec.split_heads(value, NUM_HEADS))
    made = F.linear(merged, params["out_proj.weight"], params["out_proj.bias"])
    same = torch.allclose(made, output.float(), rtol=1e-3, atol=1e-3)
    right = judge_weights(weights.detach().to(true.dtype), true, training)
    return True, same, right, gradients_arrive(output, module)


def judge_weights(weights, true, training: bool):
    """True for the softmax of the visible scores; in training some are 0, the rest enlarged."""
    if not bool((weights[true == 0] == 0).all()):
        inverted = bool((weights[true > 0] == 0).all())
        return "only hidden keys have a weight" if inverted else "hidden keys have a weight"
    if not training:
        sums = torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-4)
        right = torch.allclose(weights, true, atol=1e-4)
        return right or ("no" if sums else "rows do not sum to 1")
    visible = true > 1e-4
    dropped = ((weights == 0) & visible).sum() / visible.sum()
    kept = torch.where(weights == 0, 0.0, true)
    if dropped < 0.1:
        return "nothing is dropped" if torch.allclose(weights, kept, atol=1e-4) else "no"
    if torch.allclose(weights, kept, atol=1e-4):
        return "the kept weights are not enlarged"
    return torch.allclose(weights, kept / (1 - DROPOUT), atol=1e-4) or "too large or too small"


def gradients_arrive(output, module) -> bool:
    wanted = [module.q_proj.weight, module.v_proj.weight]
    if not output.requires_grad:
        return False
    grads = torch.autograd.grad(output.square().sum(), wanted, allow_unused=True)
    return all(g is not None and bool(g.abs().max() > 1e-6) for g in grads)


def judge_one_position(module, x, params) -> tuple:
    """With one position a head's weight is 1: dropout keeps all of a head's value, or nothing."""
    with torch.no_grad():
        module.train().out_proj.weight.copy_(torch.eye(EMBED_DIM))
        module.out_proj.bias.zero_()
        value = F.linear(x, params["v_proj.weight"], params["v_proj.bias"])
        ratios = torch.cat([module(x)[0] / value for _ in range(4)]).view(
            -1, EMBED_DIM // NUM_HEADS
        )
    return (bool((ratios - ratios[:, :1]).abs().max() < 1e-3),)


ACCEPTED = Accepted()


@ACCEPTED.add
class DroppedOnceAndReturned(AsFound):
    def forward(self, x, mask=None):
        weights = self.dropout(torch.softmax(self.scores(x, mask), dim=-1))
        return self.mix(weights, x), weights


@ACCEPTED.add
class DetachedForThePlot(AsFound):
    def forward(self, x, mask=None):
        weights = F.dropout(self.scores(x, mask).softmax(-1), self.dropout.p, self.training)
        return [self.mix(weights, x), weights.detach().clone()]


@ACCEPTED.add
class LargeNegative(AsFound):
    def forward(self, x, mask=None):
        scores = self.scores(x)
        if mask is not None:
            scores = scores + torch.where(mask, 0.0, -1e9)
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return self.mix(weights, x), weights


@ACCEPTED.add
class HeadByHead(AsFound):
    def forward(self, x, mask=None):
        scores, v = self.scores(x, mask).unbind(1), self.split(self.v_proj(x)).unbind(1)
        weights = [self.dropout(torch.softmax(s, dim=-1)) for s in scores]
        heads = [w @ vh for w, vh in zip(weights, v, strict=True)]
        return self.out_proj(torch.cat(heads, dim=-1)), torch.stack(weights, dim=1)


@ACCEPTED.add
class FusedWithIdentityValues(AsFound):
    def forward(self, x, mask=None):
        q, k = self.split(self.q_proj(x)), self.split(self.k_proj(x))
        one = torch.eye(x.size(1)).expand(*q.shape[:2], -1, -1)
        p = self.dropout.p if self.training else 0.0
        weights = F.scaled_dot_product_attention(q, k, one, attn_mask=mask, dropout_p=p)
        return self.mix(weights, x), weights


@ACCEPTED.add
class OwnDropout(AsFound):
    def forward(self, x, mask=None):
        exponentials = torch.exp(self.scores(x, mask))
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        if self.training:
            keep = torch.rand_like(weights) >= self.dropout.p
            weights = weights * keep / (1 - self.dropout.p)
        return self.mix(weights, x), weights


MISTAKES = Mistakes()


def mistake(says: str):
    """Register ``forward(self, x, mask)`` as the layer that has it."""

    def register(forward):
        def with_default(self, x, mask=None):
            return forward(self, x, mask)

        MISTAKES.add(says)(type(forward.__name__, (AsFound,), {"forward": with_default}))
        return forward

    return register


def soft(self, x, mask):
    return torch.softmax(self.scores(x, mask), dim=-1)


@mistake(
    "The plotted weights are computed again, without mask and dropout, as in the code as found."
)
def recomputed(self, x, mask):
    return AsFound.forward(self, x, mask), soft(self, x, None)


@mistake("The returned weights do not know the mask.")
def without_mask(self, x, mask):
    torch_state = torch.get_rng_state()
    out = AsFound.forward(self, x, mask)
    torch.set_rng_state(torch_state)
    return out, self.dropout(soft(self, x, None))


@mistake("The weights are returned before dropout; while training they did not make the output.")
def before_dropout(self, x, mask):
    weights = soft(self, x, mask)
    return self.mix(self.dropout(weights), x), weights


@mistake("Dropout is drawn twice: the returned weights are another draw than those that were used.")
def second_draw(self, x, mask):
    weights = soft(self, x, mask)
    return self.mix(self.dropout(weights), x), self.dropout(weights)


@mistake("Only the output is returned; return (output, weights).")
def output_only(self, x, mask):
    return AsFound.forward(self, x, mask)


@mistake("The order is (weights, output); return (output, weights).")
def swapped(self, x, mask):
    weights = self.dropout(soft(self, x, mask))
    return weights, self.mix(weights, x)


@mistake("The weights are averaged over the heads; return every head's own.")
def averaged(self, x, mask):
    weights = self.dropout(soft(self, x, mask))
    return self.mix(weights, x), weights.mean(dim=1)


@mistake("The weights of one head and sample only are returned; return (batch, heads, n, n).")
def one_head(self, x, mask):
    weights = self.dropout(soft(self, x, mask))
    return self.mix(weights, x), weights[0, 0]


@mistake("Dropout is always on; it belongs to training only (self.dropout knows the mode).")
def always_dropped(self, x, mask):
    weights = F.dropout(soft(self, x, mask), DROPOUT)
    return self.mix(weights, x), weights


@mistake("Dropout is gone; the layer must still train as it did.")
def never_dropped(self, x, mask):
    weights = soft(self, x, mask)
    return self.mix(weights, x), weights


@mistake("The dropped weights are not enlarged by 1 / (1 - p).")
def not_enlarged(self, x, mask):
    weights = self.dropout(soft(self, x, mask))
    weights = weights * (1 - DROPOUT) if self.training else weights
    return self.mix(weights, x), weights


@mistake("The rows are scaled to sum 1 again after dropout; return the weights as they were used.")
def renormalized(self, x, mask):
    weights = self.dropout(soft(self, x, mask))
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1e-9)
    return self.mix(weights, x), weights


@mistake("Dropout acts on the scores, before the softmax; it belongs on the weights.")
def scores_dropped(self, x, mask):
    weights = torch.softmax(self.dropout(self.scores(x)), dim=-1)
    if mask is not None:
        dropped = self.dropout(self.scores(x)).masked_fill(~mask, float("-inf"))
        weights = torch.softmax(dropped, dim=-1)
    return self.mix(weights, x), weights


@mistake("Dropout acts on the merged heads; it belongs on the weights.")
def heads_dropped(self, x, mask):
    weights = soft(self, x, mask)
    heads = (weights @ self.split(self.v_proj(x))).transpose(1, 2).flatten(2)
    return self.out_proj(self.dropout(heads)), weights


@mistake("The mask is inverted: True = may attend.")
def inverted(self, x, mask):
    scores = self.scores(x)
    if mask is not None:
        scores = scores.masked_fill(mask, -1e9)
    weights = self.dropout(torch.softmax(scores, dim=-1))
    return self.mix(weights, x), weights


@mistake("The mask is applied after the softmax, so the rows of weights no longer sum to 1.")
def masked_after(self, x, mask):
    weights = soft(self, x, None)
    weights = self.dropout(weights if mask is None else weights * mask)
    return self.mix(weights, x), weights


@mistake("The mask is ignored altogether.")
def unmasked(self, x, mask):
    weights = self.dropout(soft(self, x, None))
    return self.mix(weights, x), weights


@mistake("The scores are returned instead of the weights.")
def scores_returned(self, x, mask):
    return AsFound.forward(self, x, mask), self.scores(x, mask)


@mistake("The output is made of detached weights, so W_q and W_k learn nothing.")
def detached(self, x, mask):
    weights = self.dropout(soft(self, x, mask)).detach()
    return self.mix(weights, x), weights


@mistake("forward switches the layer to evaluation; leave the mode to the caller.")
def switched_to_evaluation(self, x, mask):
    self.eval()
    weights = self.dropout(soft(self, x, mask))
    return self.mix(weights, x), weights


@mistake("forward switches the layer to training; leave the mode to the caller.")
def switched_to_training(self, x, mask):
    self.train()
    weights = self.dropout(soft(self, x, mask))
    return self.mix(weights, x), weights


@mistake(
    "forward switches the layer to evaluation and then to training; leave the mode to the caller."
)
def switched_back_to_training(self, x, mask):
    self.eval()
    weights = self.dropout(soft(self, x, mask))
    self.train()
    return self.mix(weights, x), weights


@mistake("The mask is inverted in place, which changes the caller's tensor.")
def mask_changed(self, x, mask):
    scores = self.scores(x)
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not_(), float("-inf"))
    weights = self.dropout(torch.softmax(scores, dim=-1))
    return self.mix(weights, x), weights


MISTAKES.add("Pass the class, not an instance.")(
    DroppedOnceAndReturned(EMBED_DIM, NUM_HEADS, DROPOUT)
)

EXERCISE = Exercise(
    name="03.honest_plot",
    number=6,
    title="Plot the weights that were used",
    kind="Repair",
    points=2,
    difficulty=3,
    minutes=15,
    needs="section 'Where it breaks' of chapter 3",
    judge=Facts(facts, NAMES),
    hints=(
        "There is one moment at which the weights are exactly those that meet the values.",
        "Give a name to what self.dropout returns. Use it for the output, and return it.",
        "weights = self.dropout(torch.softmax(self.scores(x, mask), dim=-1)); "
        "return self.mix(weights, x), weights",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
