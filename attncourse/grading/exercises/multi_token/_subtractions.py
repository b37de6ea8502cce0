"""Other differences, other pairs and other masks: steps of `Subtracted` that go wrong."""

import torch
import torch.nn.functional as F

from attncourse.grading.exercises.multi_token._pairs import halves, total
from attncourse.grading.recipe import hide, triangle


def scores_subtracted(change=lambda w, lam: w):
    """The scores are subtracted, before one softmax."""

    def score(x):
        return difference(x.query @ x.key.mT, x.rest)

    return {"score": score, "pair": lambda w: (w, w), "subtract": lambda w, same, lam: w}


def crossed(query=0, key=0):
    """The second head's queries or keys are those of the first."""

    def score(x):
        q, k = x.query.clone(), x.key.clone()
        if query:
            q[:, 1::2] = x.query[:, ::2]
        if key:
            k[:, 1::2] = x.key[:, ::2]
        return q @ k.mT

    return {"score": score}


def difference(x, lam):
    """First minus lam times second, of anything that has two heads a pair."""
    return x[:, ::2] - lam * x[:, 1::2]


def subtract(change):
    """Another difference of the two maps."""
    return {"subtract": change}


def apart(first, second):
    """The first heads of one table of all heads, the second heads of another."""
    return torch.stack([first[:, ::2], second[:, 1::2]], 2).flatten(1, 2)


def together(scores):
    """One softmax over the keys of both heads of a pair."""
    pairs = scores.unflatten(1, (-1, 2)).transpose(2, 3)
    return pairs.flatten(3).softmax(-1).view_as(pairs).transpose(2, 3).flatten(1, 2)


def first_maps(x):
    """The maps of the first heads alone, from what is given."""
    return hide(x.query @ x.key.mT * x.width**-0.5, x).softmax(-1)[:, ::2]


PAIRS = "Heads {} are taken for a pair; heads 2 p and 2 p + 1 are pair p, neighbours."
SUM = "Each row is divided by its sum, so that it sums to 1 again; nothing is divided behind the difference."
STEPS = (
    ("The second map is added; it is subtracted.", subtract(lambda a, b, lam: a + lam * b)),
    ("The two maps are exchanged: the first one is multiplied by lam and subtracted from the second.",
     subtract(lambda a, b, lam: b - lam * a)),
    ("The order of the difference is turned around: lam * second - first.", subtract(lambda a, b, lam: lam * b - a)),
    ("lam is not used: the whole second map is subtracted.", subtract(lambda a, b, lam: a - b + 0 * lam)),
    ("Nothing is subtracted: these are the first maps alone.", subtract(lambda a, b, lam: a + 0 * lam * b)),
    ("lam multiplies the first map; it multiplies the second, which is subtracted.", subtract(lambda a, b, lam: lam * a - b)),
    ("lam multiplies the difference; it multiplies the second map alone.", subtract(lambda a, b, lam: lam * (a - b))),
    ("The first map is multiplied by 1 - lam; it stays as it is.", subtract(lambda a, b, lam: (1 - lam) * a - lam * b)),
    ("The maps are blended, (1 - lam) first + lam second; lam times the second is subtracted.",
     subtract(lambda a, b, lam: (1 - lam) * a + lam * b)),
    ("The second map is multiplied by 1 - lam; by lam.", subtract(lambda a, b, lam: a - (1 - lam) * b)),
    ("The second map is divided by lam; it is multiplied by it.", subtract(lambda a, b, lam: a - b / lam)),
    ("lam is squared; it is used as it is.", subtract(lambda a, b, lam: a - lam**2 * b)),
    ("The sign of lam is lost; it may be negative.", subtract(lambda a, b, lam: a - lam.abs() * b)),
    ("lam is clamped to 0 and 1; it may be any number.", subtract(lambda a, b, lam: a - lam.clamp(0, 1) * b)),
    ("The sigmoid of lam is used; lam itself is the factor.", subtract(lambda a, b, lam: a - lam.sigmoid() * b)),
    ("exp(lam) is used; lam itself is the factor.", subtract(lambda a, b, lam: a - lam.exp() * b)),
    (SUM, subtract(lambda a, b, lam: (a - lam * b) / (1 - lam))),
    (SUM, subtract(lambda a, b, lam: (a - lam * b) / total(a - lam * b))),
    ("Each row is divided by the sum of its absolute values; nothing is divided behind the difference.",
     subtract(lambda a, b, lam: (a - lam * b) / total((a - lam * b).abs()))),
    ("The difference is multiplied by 1 - lam; it stays as it is.", subtract(lambda a, b, lam: (1 - lam) * (a - lam * b))),
    ("Negative weights are set to 0; a weight may be negative, that is the point.",
     subtract(lambda a, b, lam: (a - lam * b).relu())),
    ("Negative weights lose their sign; a weight may be negative, that is the point.",
     subtract(lambda a, b, lam: (a - lam * b).abs())),
    ("Negative weights are set to 0 and the rest sums to 1; a weight may be negative, that is the point.",
     subtract(lambda a, b, lam: (a - lam * b).relu() / total((a - lam * b).relu()))),
    ("The difference goes through a softmax again; the maps are softmaxes already.",
     subtract(lambda a, b, lam: (a - lam * b).softmax(-1))),
    ("The difference is halved, as a mean is.", subtract(lambda a, b, lam: (a - lam * b) / 2)),
    ("The maps are multiplied with each other; the second is subtracted.", subtract(lambda a, b, lam: a * (1 - lam * b))),
    ("No gradient flows through the map that is subtracted: it is detached.", subtract(lambda a, b, lam: a - lam * b.detach())),
    ("No gradient flows through the first map: it is detached.", subtract(lambda a, b, lam: a.detach() - lam * b)),
    ("No gradient flows back to lam: it is detached, or a Python number.", subtract(lambda a, b, lam: a - lam.item() * b)),
    ("The mean of the second maps of all pairs is subtracted; each pair subtracts its own.",
     subtract(lambda a, b, lam: a - lam * b.mean(1, keepdim=True))),
    ("All pairs subtract the map of head 1; each subtracts its own second map.", subtract(lambda a, b, lam: a - lam * b[:, :1])),
    ("All pairs get the weights of pair 0; each has its own.", subtract(lambda a, b, lam: (a - lam * b)[:, :1].expand_as(a))),
    ("All pairs get the weights of the last pair; each has its own.", subtract(lambda a, b, lam: (a - lam * b)[:, -1:].expand_as(a))),
    ("lam is set to 0 where it is negative; it may be any number.", subtract(lambda a, b, lam: a - lam.relu() * b)),
    ("The mean of each row is subtracted; only lam times the second map is.",
     subtract(lambda a, b, lam: a - lam * b - (a - lam * b).mean(-1, keepdim=True))),
    (PAIRS.format("p and p + h"), {"pair": halves}),
    ("Heads p and p + h are taken for a pair, in the wrong order as well.", {"pair": lambda w: halves(w)[::-1]}),
    (PAIRS.format("2 p and 2 p - 1"), {"pair": lambda w: (w[:, ::2], w[:, 1::2].roll(1, 1))}),
    (PAIRS.format("2 p and 2 p + 3"), {"pair": lambda w: (w[:, ::2], w[:, 1::2].roll(-1, 1))}),
    (PAIRS.format("p and p + 1"), {"pair": lambda w: (w[:, : w.size(1) // 2], w[:, 1 : w.size(1) // 2 + 1])}),
    (PAIRS.format("p and 2 h - 1 - p"), {"pair": lambda w: (halves(w)[0], halves(w)[1].flip(1))}),
    ("A map is subtracted from itself: both are those of the first heads.", {"pair": lambda w: (w[:, ::2], w[:, ::2])}),
    ("Both maps are those of the second heads.", {"pair": lambda w: (w[:, 1::2], w[:, 1::2])}),
    ("The scores are subtracted, and one softmax is taken of the difference; subtract the two softmaxes.", scores_subtracted()),
    ("Queries and keys are subtracted, and one softmax is taken of their product; subtract the two softmaxes.",
     {**scores_subtracted(), "score": lambda x: difference(x.query, x.rest) @ difference(x.key, x.rest).mT}),
    ("The queries are subtracted, and one softmax is taken; subtract the two softmaxes.",
     {**scores_subtracted(), "score": lambda x: difference(x.query, x.rest) @ x.key[:, ::2].mT}),
    ("A causal mask hides later keys; only what visible hides is hidden.",
     {"mask": lambda s, x: hide(s, x._replace(visible=x.visible & triangle(*s.shape[-2:], 0)))}),
    ("The second head asks with the queries of the first; it has its own.", crossed(query=1)),
    ("The second head looks at the keys of the first; it has its own.", crossed(key=1)),
    ("The mask is not used for the second map; it hides keys from both.", {"mask": lambda s, x: apart(hide(s, x), s)}),
    ("The mask is not used for the first map; it hides keys from both.", {"mask": lambda s, x: apart(s, hide(s, x))}),
    ("Hidden scores of the second map are set to 0, so hidden keys keep some weight; minus infinity hides.",
     {"mask": lambda s, x: apart(hide(s, x), hide(s, x, 0.0))}),
    ("Only the scores of the first heads are divided by sqrt(head_dim); those of both are.",
     {"mask": lambda s, x: hide(apart(s, s * x.width**0.5), x)}),
    ("The scores are divided by the square root of the width of both heads; each is head_dim wide.",
     {"scale": lambda x: (2 * x.width) ** -0.5}),
    ("The softmax of the second map runs over the queries; each query shares out its weight among the keys (dim=-1).",
     {"normalize": lambda s: apart(s.softmax(-1), s.softmax(-2))}),
    ("The second map has no softmax; both have one.", {"normalize": lambda s: apart(s.softmax(-1), s.nan_to_num(neginf=0.0))}),
    ("The two heads of a pair share one softmax; each map is a softmax of its own.",
     {"normalize": lambda s: together(s)}),
    ("The keys are mixed instead of the values.", {"mix": lambda w, x: w @ x.key[:, ::2]}),
    ("The values of pair 0 are mixed for all pairs; each has its own.", {"mix": lambda w, x: w @ x.value[:, :1]}),
    ("The mean of the values of all pairs is mixed; each pair has its own.", {"mix": lambda w, x: w @ x.value.mean(1, keepdim=True)}),
    ("The output is made by the first map alone; it is the difference times the values.",
     {"mix": lambda w, x: first_maps(x) @ x.value}),
    ("The difference is right, but the output is multiplied by 1 - lam once more.", {"mix": lambda w, x: (1 - x.rest) * (w @ x.value)}),
    ("The output is normalized here; the norm comes behind this step.",
     {"mix": lambda w, x: F.rms_norm(w @ x.value, x.value.shape[-1:])}),
    ("The maps of all heads are returned with the output; return the differences.",
     {"answer": lambda o, w, s, x: (o, hide(s, x).softmax(-1))}),
    ("The first maps are returned with the output; return the differences.",
     {"answer": lambda o, w, s, x: (o, hide(s, x).softmax(-1)[:, ::2])}),
    ("The second maps are returned with the output; return the differences.",
     {"answer": lambda o, w, s, x: (o, hide(s, x).softmax(-1)[:, 1::2])}),
    ("The output has one head for each of the 2 h; return one for each pair.",
     {"answer": lambda o, w, s, x: (o.repeat_interleave(2, 1), w)}),
)  # fmt: skip
