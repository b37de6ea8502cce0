"""Exercise empty_row: a query that may read nothing."""

import math

import torch
import torch.nn.functional as F

from attncourse import spec
from attncourse.grading.compare import Case
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes


def cases(seed: int) -> list[Case]:
    """Some rows empty, all rows empty, none empty; scores that saturate; loud hidden keys."""
    g = torch.Generator().manual_seed(seed)

    def qkv(b, h, n, m, d, e, loud=1.0):
        shapes = (b, h, n, d), (b, h, m, d), (b, h, m, e)
        query, key, value = (torch.randn(s, generator=g) for s in shapes)
        return loud * query, key, value

    holes = torch.rand(2, 1, 5, 7, generator=g) < 0.6
    holes[:, :, :, 2], holes[:, :, 3, 4] = True, False  # no row is empty, one is not full
    some = holes.clone()
    some[0, 0, 1] = some[1, 0, 0] = some[1, 0, 4] = False
    left_padded = torch.ones(5, 5, dtype=torch.bool).tril()
    left_padded[:, :2] = False
    one_empty = torch.zeros(2, 1, 3, 5, dtype=torch.bool)
    one_empty[1] = True
    loudest_hidden = qkv(1, 6, 3, 5, 4, 7)
    loudest_hidden[0][..., 0], loudest_hidden[1][..., 0] = 1.0, 0.0
    # hidden scores of 50, 150 and 1000
    loudest_hidden[1][0, :, 0, 0] = torch.tensor([100.0, 300.0, 2000.0]).repeat(2)
    shared = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]]).bool()
    key_0_hidden = torch.tensor([[0, 1, 0, 1, 1], [0, 0, 1, 1, 0], [0, 1, 1, 0, 1]]).bool()
    return [
        Case("3 of 10 rows empty", (*qkv(2, 3, 5, 7, 11, 13), some)),
        Case("no row empty", (*qkv(2, 3, 5, 7, 4, 6), holes)),
        Case("causal and left-padded, large scores", (*qkv(1, 2, 5, 5, 3, 4, 144.0), left_padded)),
        Case("a hidden key has the largest scores", (*loudest_hidden, key_0_hidden)),
        Case("an empty sample", (*qkv(2, 2, 3, 5, 4, 6), one_empty)),
        Case("one mask for 2 samples, 5 queries, 3 keys", (*qkv(2, 3, 5, 3, 4, 6), shared)),
        Case("1 head, 1 query", (*qkv(2, 1, 1, 3, 4, 1), torch.tensor([[True, False, True]]))),
        very_low_scores(torch.randn(1, 1, 3, 4, generator=g)),
    ]


def very_low_scores(value) -> Case:
    """Scores of -10400, -10400.8125 and a hidden 0; float32 holds all numbers on the way exactly."""
    query = torch.full((1, 1, 2, 16), -26.0)
    key = torch.full((1, 1, 3, 16), 100.0)
    key[0, 0, 1, 0], key[0, 0, 2] = 100.125, 0.0
    mask = torch.tensor([[True, True, False], [False, False, False]])
    # The scores are as coarse as 0.001, and so gradients depend on the order of the sums.
    return Case("visible scores of -10400", (query, key, value, mask), gradients=False)


def scores_of(query, key):
    return query @ key.mT / math.sqrt(query.size(-1))


def masked(query, key, mask, fill=-math.inf):
    return scores_of(query, key).masked_fill(~mask, fill)


ACCEPTED = Accepted()


@ACCEPTED.add
def filled_before_and_after(query, key, value, mask):
    empty = ~mask.any(dim=-1, keepdim=True)
    weights = torch.softmax(masked(query, key, mask).masked_fill(empty, 0.0), dim=-1)
    weights = weights.masked_fill(empty, 0.0)
    return weights @ value, weights


@ACCEPTED.add
def nan_replaced_in_the_weights(query, key, value, mask):
    weights = torch.nan_to_num(torch.softmax(masked(query, key, mask), dim=-1))
    return weights @ value, weights


@ACCEPTED.add
def large_number_then_mask_again(query, key, value, mask):
    weights = torch.softmax(masked(query, key, mask, -1e9), dim=-1) * mask
    return torch.einsum("bhnm,bhme->bhne", weights, value), weights


@ACCEPTED.add
def by_hand_in_float64(query, key, value, mask):
    scores = masked(query.double(), key.double(), mask)
    largest = scores.amax(-1, keepdim=True).detach().clamp(min=-1e300)
    exponentials = torch.exp(scores - largest)
    weights = exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-300)
    return weights @ value.double(), weights


@ACCEPTED.add
def fused_output(query, key, value, mask):
    weights = torch.softmax(masked(query, key, mask, torch.finfo(query.dtype).min), dim=-1)
    weights = torch.where(mask, weights, 0.0)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask), weights


@ACCEPTED.add
def rows_one_by_one(query, key, value, mask):
    b, h, n, _ = query.shape
    mask = mask.expand(b, h, n, key.size(2))
    rows = []
    for s, visible in zip(scores_of(query, key).flatten(0, 2), mask.flatten(0, 2), strict=True):
        row = torch.zeros_like(s)
        if visible.any():
            row = row.masked_scatter(visible, torch.softmax(s[visible], dim=0))
        rows.append(row)
    weights = torch.stack(rows).reshape(b, h, n, -1)
    return weights @ value, weights


MISTAKES = Mistakes()


@MISTAKES.add("An empty row is still NaN: the softmax of minus infinities is 0 / 0.")
def as_found(query, key, value, mask):
    weights = torch.softmax(masked(query, key, mask), dim=-1)
    return weights @ value, weights


@MISTAKES.add(
    "A large negative number gives an empty row equal weights on all its hidden keys; it must read "
    "nothing."
)
def large_number(query, key, value, mask):
    weights = torch.softmax(masked(query, key, mask, -1e9), dim=-1)
    return weights @ value, weights


@MISTAKES.add(
    "A large negative number gives an empty row equal weights on all its hidden keys; and a visible "
    "score can be lower than a number such as -1e4. Use -math.inf, and set empty rows to 0."
)
def rather_large_number(query, key, value, mask):
    weights = torch.softmax(masked(query, key, mask, -1e4), dim=-1)
    return weights @ value, weights


@MISTAKES.add(
    "A visible score can be lower than a number such as -1e4, and then a hidden key takes the weight; "
    "hide with -math.inf."
)
def rather_large_number_then_mask_again(query, key, value, mask):
    weights = torch.softmax(masked(query, key, mask, -1e4), dim=-1) * mask
    return weights @ value, weights


@MISTAKES.add("An axis of size 1 is squeezed away; the shapes stay as the table gives them.")
def squeezed(query, key, value, mask):
    output, weights = filled_before_and_after(query, key, value, mask)
    return output.squeeze(1), weights.squeeze(1)


@MISTAKES.add("The output of an empty row is 0, but its weights are still equal shares.")
def output_zeroed_only(query, key, value, mask):
    output, weights = large_number(query, key, value, mask)
    return output.masked_fill(~mask.any(-1, keepdim=True), 0.0), weights


@MISTAKES.add("The output is repaired, but the weights of an empty row are still NaN.")
def output_repaired_only(query, key, value, mask):
    output, weights = as_found(query, key, value, mask)
    return torch.nan_to_num(output), weights


@MISTAKES.add(
    "The output is repaired after the mix: the NaN weights stay in the graph, and so the gradient of "
    "the values is NaN."
)
def repaired_after_the_mix(query, key, value, mask):
    output, weights = as_found(query, key, value, mask)
    return torch.nan_to_num(output), torch.nan_to_num(weights)


@MISTAKES.add(
    "Minus infinity is added, and the softmax sees the empty row: its backward pass sends NaN to "
    "queries and keys."
)
def added_infinity(query, key, value, mask):
    bias = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    weights = torch.nan_to_num(torch.softmax(scores_of(query, key) + bias, dim=-1))
    return weights @ value, weights


@MISTAKES.add("An empty row reads key 0; it must read nothing.")
def first_key_allowed(query, key, value, mask):
    first = torch.arange(mask.size(-1)) == 0
    return as_found(query, key, value, mask | ~mask.any(-1, keepdim=True) & first)


@MISTAKES.add("An empty row ignores the mask and reads every key; it must read nothing.")
def everything_allowed(query, key, value, mask):
    return as_found(query, key, value, mask | ~mask.any(-1, keepdim=True))


@MISTAKES.add("The mask comes after the softmax, so the visible weights no longer sum to 1.")
def masked_after_softmax(query, key, value, mask):
    weights = torch.softmax(scores_of(query, key), dim=-1) * mask
    return weights @ value, weights


@MISTAKES.add("The mask comes after the softmax, and an empty row is divided by its sum: 0 / 0.")
def divided_by_zero(query, key, value, mask):
    weights = torch.softmax(scores_of(query, key), dim=-1) * mask
    weights = weights / weights.sum(-1, keepdim=True)
    return weights @ value, weights


@MISTAKES.add(
    "The mask comes after the softmax: a hidden key with a large score has already taken the weight, "
    "and dividing by a sum plus epsilon does not bring it back."
)
def divided_by_epsilon(query, key, value, mask):
    weights = torch.softmax(scores_of(query, key), dim=-1) * mask
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-6)
    return weights @ value, weights


@MISTAKES.add(
    "The maximum is taken over all keys, hidden ones included: next to a loud hidden key all visible "
    "exponentials round to 0. Take it over the visible keys."
)
def maximum_of_all_keys(query, key, value, mask):
    scores = scores_of(query, key)
    exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * mask
    weights = exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-30)
    return weights @ value, weights


@MISTAKES.add("The booleans are added to the scores: True adds 1, False adds 0, nothing is hidden.")
def booleans_added(query, key, value, mask):
    weights = torch.softmax(scores_of(query, key) + mask, dim=-1)
    return weights @ value, weights


@MISTAKES.add(
    "Empty rows are set to 0, but elsewhere the booleans are only added to the scores: True adds 1, "
    "False adds 0, nothing is hidden."
)
def booleans_added_and_empty_rows_zeroed(query, key, value, mask):
    weights = torch.softmax(scores_of(query, key) + mask, dim=-1) * mask.any(-1, keepdim=True)
    return weights @ value, weights


@MISTAKES.add("Hidden scores are set to 0; a score of 0 still gets weight.")
def filled_with_zero(query, key, value, mask):
    weights = torch.softmax(masked(query, key, mask, 0.0), dim=-1)
    weights = weights * mask.any(-1, keepdim=True)
    return weights @ value, weights


@MISTAKES.add(
    "Every row with a hidden key is set to 0; only rows without any visible key are empty."
)
def partly_hidden_is_empty(query, key, value, mask):
    weights = filled_before_and_after(query, key, value, mask)[1] * mask.all(-1, keepdim=True)
    return weights @ value, weights


@MISTAKES.add(
    "Emptiness is looked for along the queries (dim=-2); a row runs along the keys (dim=-1)."
)
def wrong_axis(query, key, value, mask):
    empty = ~mask.any(dim=-2, keepdim=True)
    weights = torch.softmax(masked(query, key, mask).masked_fill(empty, 0.0), dim=-1)
    weights = weights.masked_fill(empty, 0.0)
    return weights @ value, weights


@MISTAKES.add("The mask is read the other way round; True = may attend.")
def inverted(query, key, value, mask):
    return filled_before_and_after(query, key, value, ~mask)


@MISTAKES.add("The mask is not used.")
def unmasked(query, key, value, mask):
    return as_found(query, key, value, torch.ones_like(mask))


@MISTAKES.add("The scores are not divided by sqrt(head_dim).")
def unscaled(query, key, value, mask):
    return filled_before_and_after(query * math.sqrt(query.size(-1)), key, value, mask)


@MISTAKES.add("Only the output is returned; return (output, weights).")
def output_only(query, key, value, mask):
    return filled_before_and_after(query, key, value, mask)[0]


@MISTAKES.add("No gradient flows through the weights; they are detached or made inside no_grad.")
def detached(query, key, value, mask):
    weights = filled_before_and_after(query, key, value, mask)[1].detach()
    return weights @ value, weights


EXERCISE = Exercise(
    name="empty_row",
    answer="attention",
    title="The empty row",
    kind="Repair",
    points=3,
    difficulty=3,
    minutes=20,
    needs="section 'The empty row' of chapter 2",
    judge=Calls(spec.scaled_dot_product_attention, cases),
    hints=(
        "Find the empty rows before the softmax: ~mask.any(dim=-1, keepdim=True).",
        "Repair the row at the latest in the weights, before they meet the values. Safest: give the "
        "softmax a harmless row.",
        "Fill the scores of empty rows with 0.0 before the softmax, and their weights with 0.0 after it.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
