"""Exercise learned_sink: attention in which every head has a score for reading nothing."""

import math

import torch

from attncourse import spec
from attncourse.grading.exercise import Accepted, Calls, Exercise, Mistakes
from attncourse.grading.exercises.sinks._with_sink import (
    WithSink,
    alone,
    by_hand,
    column,
    opened,
    total,
)
from attncourse.grading.inputs import far_below_zero, normal, seeded
from attncourse.grading.mistakes import ATTENTION, masks, mistakes_of, weights
from attncourse.grading.observe import Case
from attncourse.grading.recipe import Given, hide


def definition(query, key, value, sink, visible):
    """The loops of the course: behind the keys stands one more, with the score of the sink and value 0."""
    return spec.sink_attention(query, key, value, sink, visible)


CALLS = (  # what is special, b h n m d e, how loud, the factor on the sinks, what is added, the share that is hidden
    ("2 samples, 3 heads, 4 queries, 5 keys, values 7 wide", (2, 3, 4, 5, 6, 7), 1, 1, 0, 0),
    ("hidden keys, and a query that may read none", (3, 2, 5, 6, 4, 3), 1, 1, 0, 0.4),
    ("large scores and sinks", (1, 3, 4, 6, 5, 2), 200, 200, 400, 0),
    ("sinks of about 1000", (2, 4, 3, 5, 6, 4), 1, 3, 1000, 0),
    ("sinks far below all scores", (1, 4, 2, 3, 5, 6), 1, 3, -3e6, 0.3),
    ("scores below -1e8, and sinks below them", (1, 2, 4, 3, 16, 5), far_below_zero, 1, -3e8, 0.3),
    ("1 query, 1 key, 1 head", (2, 1, 1, 1, 4, 3), 1, 1, 1, 0),
)


def cases(seed: int) -> list[Case]:
    g, found = seeded(seed), []
    for what, (b, h, n, m, d, e), loud, factor, added, hidden in CALLS:
        query, key, value, sink = normal(g, (b, h, n, d), (b, h, m, d), (b, h, m, e), (h,))
        visible = torch.rand(n, m, generator=g) >= hidden
        if hidden:
            visible[0], visible[1] = False, True
        query = query if callable(loud) else loud * query
        if callable(loud):
            loud(query, key)
        args = query, key, value, factor * sink + added, visible
        found.append(Case(what, args, gradients=loud == 1))
    return found


def given(query, key, value, sink, visible):
    return Given(query, key, value, visible, rest=sink)


RIGHT = WithSink(given)
ACCEPTED = Accepted(one_more_column=RIGHT)


def scores_of(query, key, visible):
    scores = torch.einsum("bhid,bhjd->bhij", query, key) / math.sqrt(key.size(-1))
    return scores.masked_fill(visible.logical_not(), float("-inf"))


@ACCEPTED.add
def sigmoid_of_the_log_sum(query, key, value, sink, visible):
    scores = scores_of(query, key, visible)
    lse = torch.logsumexp(scores.masked_fill(~visible.any(-1)[:, None], -1e30), -1)
    read = torch.sigmoid(lse - sink[:, None])[..., None]
    weights = scores.masked_fill(~visible.any(-1)[:, None], 0.0).softmax(-1) * read
    return weights @ value, weights


@ACCEPTED.add
def exponentials_by_hand(query, key, value, sink, visible):
    scores, sink = scores_of(query, key, visible), sink.view(1, -1, 1, 1)
    top = torch.maximum(scores.max(-1, keepdim=True).values, sink)
    e = torch.exp(scores - top)
    weights = e / (e.sum(-1, keepdim=True) + torch.exp(sink - top))
    return torch.einsum("bhij,bhje->bhie", weights, value), weights


@ACCEPTED.add
def a_key_whose_value_is_zero(query, key, value, sink, visible):
    b, h, n, _ = query.shape
    scores = torch.cat(
        [sink.reshape(1, h, 1, 1).repeat(b, 1, n, 1), scores_of(query, key, visible)], 3
    )
    every = scores.softmax(3)
    padded = torch.cat([value.new_zeros(b, h, 1, value.size(3)), value], 2)
    return [every @ padded, every[..., 1:]]


@ACCEPTED.add
def head_by_head(query, key, value, sink, visible):
    found = []
    for h in range(query.size(1)):
        scores = scores_of(query[:, h : h + 1], key[:, h : h + 1], visible)
        log = torch.logaddexp(scores.logsumexp(-1), sink[h]).unsqueeze(-1)
        w = torch.exp(scores - log)
        found.append((w @ value[:, h : h + 1], w))
    return tuple(torch.cat(x, 1) for x in zip(*found, strict=True))


MISTAKES = Mistakes([RIGHT.but(says, **steps) for says, steps in (
    ("The sink is not used: this is plain attention.", alone()),
    ("The sink is not used, and a query that may read nothing gets 0.", alone(lambda w, sink: w.nan_to_num(0.0))),
    ("The sink is added to every score of its head; a softmax does not notice that.",
     {**alone(), "append": lambda s, sink: s + sink[:, None, None]}),
    ("The weights are multiplied by the sigmoid of the sink; what the sink takes depends on the scores, too.",
     alone(lambda w, sink: w.nan_to_num(0.0) * torch.sigmoid(sink))),
    ("The weights are multiplied by 1 minus the sigmoid of the sink; what the sink takes depends on the scores, too.",
     alone(lambda w, sink: w.nan_to_num(0.0) * torch.sigmoid(-sink))),
    ("The sink is subtracted from the weights; it is one more score.", alone(lambda w, sink: w - sink)),
    ("The weights are divided by 1 and exp(sink); exp(sink) meets the exponentials of the scores.",
     alone(lambda w, sink: w.nan_to_num(0.0) / (1 + sink.exp()))),
    ("The sink is scaled as if it were a dot product; it is a score already.",
     {"given": lambda q, k, v, s, x: given(q, k, v, s * q.size(-1) ** -0.5, x)}),
    ("The sink is multiplied by sqrt(head_dim); it is a score already.",
     {"given": lambda q, k, v, s, x: given(q, k, v, s * q.size(-1) ** 0.5, x)}),
    ("The sign of the sink is turned: a high one should take much.", {"append": lambda s, sink: RIGHT.append(s, -sink)}),
    ("The sink is 0 in every head: this is softmax-off-by-one.", {"append": lambda s, sink: RIGHT.append(s, 0 * sink)}),
    ("All heads get the sink of the first; each has its own.", {"append": lambda s, sink: RIGHT.append(s, sink[:1].expand_as(sink))}),
    ("All heads get the mean of the sinks; each has its own.", {"append": lambda s, sink: RIGHT.append(s, sink.mean().expand_as(sink))}),
    ("All heads get the sum of the sinks; each has its own.", {"append": lambda s, sink: RIGHT.append(s, sink.sum().expand_as(sink))}),
    ("The heads get each other's sinks: their order is turned around.", {"append": lambda s, sink: RIGHT.append(s, sink.flip(0))}),
    ("Every head gets the sinks of all heads, one column each; it has one.",
     {"append": lambda s, sink: torch.cat([s, sink.expand(*s.shape[:-1], -1)], -1),
      "finish": lambda w, x: w[..., : x.key.size(2)], "drop": lambda w: w}),
    *((says, by_hand(sum_up, least)) for least in (-math.inf, -1e30) for says, sum_up in (
        ("The sink goes into the softmax as it is, next to exponentials; take exp(sink).", lambda e, sink, top: total(e) + sink),
        ("The largest score is subtracted from the scores, but not from the sink; it must shrink by the same factor.",
         lambda e, sink, top: total(e) + torch.exp(sink)),
        ("exp(sink - largest) overflows where the sink is far above all scores, and a query that may read none gets NaN; the sink "
         "counts when you look for the largest.", lambda e, sink, top: total(e) + torch.exp(sink - top)),
        ("exp(sink) is added once for every key; it is added once.", lambda e, sink, top: total(e + torch.exp(sink - top))),
    )),
    ("A query that may read no key gets NaN from the ordinary softmax; its weights are 0.",
     {"append": lambda s, sink: s.softmax(-1) * torch.sigmoid(s.logsumexp(-1, keepdim=True) - sink[:, None, None]),
      "normalize": lambda w: w, "drop": lambda w: w}),
    ("The share of the sink is left, not that of the keys: sigmoid(lse - sink), not sigmoid(sink - lse).",
     opened(lambda s, sink: torch.sigmoid(sink - s.logsumexp(-1, keepdim=True)))),
    ("The sink meets the largest score only; it meets all of them, logsumexp(scores).",
     opened(lambda s, sink: torch.sigmoid(s.amax(-1, keepdim=True) - sink))),
    ("Every score meets the sink alone, in a sigmoid; the keys share their weight among each other, too.",
     {"append": lambda s, sink: torch.sigmoid(s - sink[:, None, None]), "normalize": lambda w: w, "drop": lambda w: w}),
    ("The sink is subtracted from every score of its head; a softmax does not notice that.",
     {**alone(lambda w, sink: w.nan_to_num(0.0)), "append": lambda s, sink: s - sink[:, None, None]}),
    ("The sink is a gate on the output, sigmoid(-sink), and the weights do not know of it; it is one more score.",
     {**alone(lambda w, sink: w.nan_to_num(0.0)), "mix": lambda w, x: (w @ x.value) * torch.sigmoid(-x.rest)[:, None, None]}),
    ("The sink is subtracted as if it were the largest score, and 1 is added; small sinks let the exponentials overflow.",
     {"append": lambda s, sink: torch.exp(s - sink[:, None, None]) / (1 + total(torch.exp(s - sink[:, None, None]))),
      "normalize": lambda w: w, "drop": lambda w: w}),
    ("The exponentials overflow; subtract the largest of the row first, the sink among them.",
     {"append": lambda s, sink: s.exp() / (total(s.exp()) + sink.exp()[:, None, None]), "normalize": lambda w: w, "drop": lambda w: w}),
    ("The weights are right, but the output is made of weights that sum to 1 again.",
     {"mix": lambda w, x: w / total(w) @ x.value}),
    ("The output is right, but the returned weights are made to sum to 1 again.",
     {"answer": lambda o, w, s, x: (o, w / total(w))}),
    ("exp(sink) is added once for every key; it is added once.", by_hand(lambda e, sink, top: (e + torch.exp(sink - top)).sum(-1, keepdim=True))),
    ("A score of at least the sink is given to every key; the sink is a score beside them.",
     {**alone(), "append": lambda s, sink: torch.maximum(s, sink[:, None, None])}),
    ("Keys that score less than the sink are hidden; the sink takes a share, it hides nothing.",
     {**alone(lambda w, sink: w.nan_to_num(0.0)), "append": lambda s, sink: s.masked_fill(s < sink[:, None, None], -math.inf)}),
    ("The sink takes the place of the first key; it stands beside all keys.",
     {"append": lambda s, sink: torch.cat([column(s, sink), s[..., 1:]], -1), "drop": lambda w: w}),
    ("The sink takes the place of the first key; it stands beside all keys.",
     {"append": lambda s, sink: torch.cat([column(s, sink), s[..., 1:]], -1),
      "drop": lambda w: torch.cat([torch.zeros_like(w[..., :1]), w[..., 1:]], -1)}),
    ("The sink stands in front of the keys, but the last column is dropped.",
     {"append": lambda s, sink: torch.cat([column(s, sink), s], -1)}),
    ("The sink stands behind the keys, but the first column is dropped.", {"drop": lambda w: w[..., 1:]}),
    ("The weights are made to sum to 1 again, so that the sink takes nothing.",
     {"drop": lambda w: w[..., :-1] / w[..., :-1].sum(-1, keepdim=True)}),
    ("What the sink took is given back to all keys alike; nobody reads it.",
     {"drop": lambda w: w[..., :-1] + w[..., -1:] / (w.size(-1) - 1)}),
    ("What the sink took is given to the last key; nobody reads it.",
     {"drop": lambda w: torch.cat([w[..., :-2], w[..., -2:].sum(-1, keepdim=True)], -1)}),
    ("The output is right, but the returned weights have a column for the sink; return those of the keys.",
     {"drop": lambda w: w, "mix": lambda w, x: w[..., :-1] @ x.value}),
    ("The sink has the value 1; it has none: 0.", {"drop": lambda w: w, "finish": lambda w, x: w,
     "mix": lambda w, x: w[..., :-1] @ x.value + w[..., -1:], "answer": lambda o, w, s, x: (o, w[..., :-1])}),
    ("The mask hides the sink, too, so that a query without keys gets NaN; the sink can always be read.",
     {"append": lambda s, sink: RIGHT.append(s, sink).masked_fill((s == -math.inf).all(-1, keepdim=True), -math.inf)}),
    ("A query that may read no key still gives weight to hidden keys.",
     {"mask": lambda s, x: s.masked_fill(~(x.visible | ~x.visible.any(-1, keepdim=True)), -math.inf)}),
    ("No gradient flows back to the sinks: they are detached.", {"given": lambda q, k, v, s, x: given(q, k, v, s.detach(), x)}),
    ("Sinks are clamped, so that large ones are the same; subtract the largest of the row instead.",
     {"append": lambda s, sink: RIGHT.append(s, sink.clamp(-50, 50))}),
    ("What the sink took is returned with the output; return (output, weights).",
     {"answer": lambda o, w, s, x: (o, 1 - w.sum(-1))}),
    ("Output, weights and what the sink took are returned; return (output, weights).",
     {"answer": lambda o, w, s, x: (o, w, 1 - w.sum(-1))}),
    *(("Hidden scores become a number such as -1e7, which is more than some scores and sinks; minus infinity is less than any.",
       {"mask": lambda s, x, f=fill: hide(s, x, f)}) for fill in (-1e7, -1e8)),
    ("The sink is used as exp(sink); it is a score, and the softmax takes its exponential.", {"append": lambda s, sink: RIGHT.append(s, sink.exp())}),
    ("Sinks below 0 are set to 0; a sink may be any number.", {"append": lambda s, sink: RIGHT.append(s, sink.clamp(min=0.0))}),
    ("The logarithms of the weights are returned; return the weights.", {"answer": lambda o, w, s, x: (o, w.log())}),
    ("The logarithm of the sink is used; it is a score already.", {"append": lambda s, sink: RIGHT.append(s, sink.abs().log())}),
    ("What the sink took is given to the first value; nobody reads it.",
     {"mix": lambda w, x: w @ x.value + (1 - total(w)) * x.value[:, :, :1]}),
    ("A query that may read no key averages all values; its weights and its output are 0.",
     {"finish": lambda w, x: torch.where(x.visible.any(-1, keepdim=True), w, 1 / w.size(-1))}),
)] + mistakes_of(RIGHT, *ATTENTION, masks, weights))  # fmt: skip


@MISTAKES.add(
    "A causal mask is put in as well; which keys a query reads is told by the mask that is given."
)
def causal(query, key, value, sink, visible):
    past = torch.ones(query.size(2), key.size(2), dtype=torch.bool).tril()
    return RIGHT(query, key, value, sink, visible & past)


EXERCISE = Exercise(
    name="learned_sink",
    answer="sink_attention",
    judge=Calls(definition, cases),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
