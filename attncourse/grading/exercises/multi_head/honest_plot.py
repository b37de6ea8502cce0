"""Exercise honest_plot: return the weights that made the output, not others."""

import torch
import torch.nn.functional as F

from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.multi_head._honest_plot_judge import (
    DROPOUT,
    EMBED_DIM,
    NAMES,
    NUM_HEADS,
    AsFound,
    facts,
)

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


@mistake("The keys are detached, so W_k learns nothing.")
def keys_detached(self, x, mask):
    weight = self.k_proj.weight.requires_grad_(False)
    weights = self.dropout(soft(self, x, mask))
    weight.requires_grad_()
    return self.mix(weights, x), weights


@mistake("The mask is transposed: its rows are queries, its columns keys.")
def transposed(self, x, mask):
    weights = self.dropout(soft(self, x, mask if mask is None else mask.T))
    return self.mix(weights, x), weights


@mistake("Hidden scores become a small number, which leaves them a weight; fill in -inf.")
def filled_with_a_number(self, x, mask):
    scores = self.scores(x)
    if mask is not None:
        scores = scores.masked_fill(~mask, -5.0)
    weights = self.dropout(torch.softmax(scores, dim=-1))
    return self.mix(weights, x), weights


def ones(w, axis):
    """Ones in the shape of w, with this axis of length 1."""
    return torch.ones_like(w).narrow(axis, 0, 1)


for says, drop in (
    ("Whole maps are dropped, as dropout2d does; drop each weight on its own.",
     lambda w: F.dropout2d(w, DROPOUT)),
    ("All heads lose the same weights; drop in each head on its own.",
     lambda w: w * F.dropout(ones(w, 1), DROPOUT)),
    ("All samples lose the same weights; drop in each sample on its own.",
     lambda w: w * F.dropout(ones(w, 0), DROPOUT)),
    ("Whole rows are dropped, all keys of a query; drop each weight on its own.",
     lambda w: w * F.dropout(ones(w, 3), DROPOUT)),
    ("Whole keys are dropped, for all queries; drop each weight on its own.",
     lambda w: w * F.dropout(ones(w, 2), DROPOUT)),
    ("Kept with probability p, and enlarged as if dropped with it; p is the probability to drop.",
     lambda w: w * (torch.rand_like(w) < DROPOUT) / (1 - DROPOUT)),
    ("The weights are kept with probability p; p is the probability to drop.",
     lambda w: F.dropout(w, 1 - DROPOUT)),
    ("Fewer weights are dropped than self.dropout.p says; use self.dropout.",
     lambda w: F.dropout(w, 0.1)),
    ("More weights are dropped than self.dropout.p says; use self.dropout.",
     lambda w: F.dropout(w, 0.5)),
):  # fmt: skip

    @mistake(says)
    def dropped(self, x, mask, drop=drop):
        weights = soft(self, x, mask)
        weights = drop(weights) if self.training else weights
        return self.mix(weights, x), weights


MISTAKES.add("Pass the class, not an instance.")(
    DroppedOnceAndReturned(EMBED_DIM, NUM_HEADS, DROPOUT)
)

EXERCISE = Exercise(
    name="honest_plot",
    answer="HonestAttention",
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
