"""The mistakes that every causal linear attention shares, by families, each a replaced step."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attncourse.grading.exercises.linear._summed import Given, Summed, elu_plus_one, visible
from attncourse.grading.mistakes import Found, detached
from attncourse.grading.recipe import triangle

ELU = "elu(x) + 1: x + 1 above 0, exp(x) elsewhere"


def features(right: Summed) -> Found:
    """Other features of queries and keys."""
    for name, says, change in (
        ("no features", "Queries and keys meet as they are; both go through the features first.", lambda x: x),
        ("relu", "The features are relu(x); they are elu(x) + 1.", torch.relu),
        ("exponential", "The features are exp(x); they are elu(x) + 1, which is x + 1 above 0.", torch.exp),
        ("elu", "The features are elu(x), without the 1, and can be below 0.", F.elu),
        ("softmax", "The features are a softmax; there is none in linear attention.", lambda x: x.softmax(-1)),
        ("one more", "The 1 is added twice, or the features are taken twice: they are x + 1 above 0, and exp(x) elsewhere.",
         lambda x: elu_plus_one(x) + 1),
        ("softplus", "The features are softplus(x); they are elu(x) + 1.", F.softplus),
        ("relu plus one", "The features are relu(x) + 1; below 0 they are exp(x).", lambda x: x.relu() + 1),
        ("sigmoid", "The features are sigmoids; they are elu(x) + 1.", torch.sigmoid),
        ("absolute", "The features are absolute values; they are elu(x) + 1.", torch.abs),
        ("squares", "The features are squares; they are elu(x) + 1.", torch.square),
        ("divided", "The features are divided by their sum; they are used as they are.",
         lambda x: elu_plus_one(x) / elu_plus_one(x).sum(-1, keepdim=True)),
    ):  # fmt: skip
        yield name, says, {"query": change, "key": change}
    for name in ("query", "key"):
        other = "keys" if name == "query" else "queries"
        yield (
            f"{name} without features",
            f"Only the {other} go through the features; the {'queries' if name == 'query' else 'keys'} do, too.",
            {name: lambda x: x},
        )
    says = "The values go through the features, too; only queries and keys do."
    yield "value features", says, {"value": elu_plus_one}
    says = "Queries and keys are multiplied, and the features are taken of the products; take them of each."
    yield (
        "features of scores",
        says,
        {
            "query": lambda x: x,
            "key": lambda x: x,
            "score": lambda q, k: elu_plus_one(q @ k.mT),
        },
    )
    says = "A scale of 1 / sqrt(d) is on the queries before the features; there is none."
    yield "scaled queries", says, {"query": lambda x: elu_plus_one(x * x.size(-1) ** -0.5)}
    says = "A softmax stands in the place of the features' products; linear attention has none."
    yield (
        "exponential of scores",
        says,
        {"query": lambda x: x, "key": lambda x: x,
         "score": lambda q, k: torch.exp(q @ k.mT * q.size(-1) ** -0.5)},
    )  # fmt: skip


def totals(right: Summed) -> Found:
    """Other divisions."""
    for name, says, divide in (
        ("not divided", "The sum of the values is not divided by the sum of the weights.", lambda s, t, x: s),
        ("divided by all", "The sum is divided by the number of all tokens; divide by the sum of the weights.",
         lambda s, t, x: s / x.key.size(2)),
        ("divided by position", "The sum is divided by the number of tokens read; divide by the sum of the weights.",
         lambda s, t, x: s / torch.arange(1, s.size(2) + 1)[:, None]),
        ("scaled", "The sum is divided by sqrt(d), and not by the sum of the weights.",
         lambda s, t, x: s / x.query.size(-1) ** 0.5),
        ("scaled too", "The output is divided by sqrt(d) besides; there is no such scale.",
         lambda s, t, x: s / t / x.query.size(-1) ** 0.5),
        ("multiplied", "The sum is multiplied by the sum of the weights; divide by it.", lambda s, t, x: s * t),
        ("one added", "1 is added to the sum of the weights; divide by the sum alone.", lambda s, t, x: s / (t + 1)),
        *((f"{eps:g} added", f"{eps:g} is added to the sum of the weights, which is enough to be seen; features of elu + 1 need none.",
           lambda s, t, x, eps=eps: s / (t + eps)) for eps in (0.1, 0.01)),
        ("length", "The sum is divided by its own length; divide by the sum of the weights.",
         lambda s, t, x: F.normalize(s, dim=-1)),
        ("softmax of sums", "A softmax is taken of the sums; divide by the sum of the weights.", lambda s, t, x: s.softmax(-1)),
        ("root", "The sum is divided by the root of the sum of the weights.", lambda s, t, x: s / t.sqrt()),
        ("twice", "The sum is divided twice by the sum of the weights.", lambda s, t, x: s / t / t),
        ("total of the samples", "The sum of the weights runs over the heads as well; each head has its own.",
         lambda s, t, x: s / t.sum(1, keepdim=True)),
        ("total detached", "No gradient flows through the sum of the weights: it is detached.", lambda s, t, x: s / t.detach()),
        ("rounded", "The output is rounded.", lambda s, t, x: (s / t).round(decimals=2)),
    ):  # fmt: skip
        yield name, says, {"divide": divide}


def reading(right: Summed) -> Found:
    """Other keys that are read, or counted."""

    def table(rule):
        return lambda n, m, x: rule(n, m).float()

    own = triangle
    for name, says, pairs in (
        ("all read", "Every query reads all keys, later ones too.", lambda n, m: torch.ones(n, m)),
        ("itself hidden", "A token does not read itself; it reads tokens up to itself.", lambda n, m: own(n, m, -1)),
        ("one ahead", "Each token reads one token too far ahead.", lambda n, m: own(n, m, 1)),
        ("turned around", "Time is turned around: tokens read what comes later.", lambda n, m: ~own(n, m, -1)),
        ("only itself", "A token reads itself only.", lambda n, m: own(n, m, 0) & ~own(n, m, -1)),
        ("itself twice", "A token counts itself twice.", lambda n, m: own(n, m, 0).float() + torch.eye(n, m)),
        ("all and past", "All tokens are read, and then the earlier ones once more.",
         lambda n, m: 1 + own(n, m, 0).float()),
    ):  # fmt: skip
        yield name, says, {"pairs": table(pairs)}
    for name, says, rule in (
        ("all counted", "The sum of the weights runs over all keys, later ones too: over those that are read.",
         lambda n, m: torch.ones(n, m)),
        ("earlier counted", "The sum of the weights leaves out the token itself.", lambda n, m: own(n, m, -1)),
        ("itself counted", "Only the weight of the token itself stands in the sum of the weights.",
         lambda n, m: own(n, m, 0) & ~own(n, m, -1)),
        ("one more counted", "The sum of the weights runs one token too far.", lambda n, m: own(n, m, 1)),
    ):  # fmt: skip
        yield name, says, {"counted": table(rule)}
    says = "The sum of the weights is right, but the values of all tokens are added up, of later ones too."
    yield "all values", says, {"pairs": table(lambda n, m: torch.ones(n, m)), "counted": visible}


def results(right: Summed) -> Found:
    """The right numbers in another shape, or cut off from the gradient."""

    def instead(change):
        return lambda output, state, x: right.answer(change(output), state, x)

    for name, says, change in (
        ("tokens first", "Heads stand behind the tokens in the output; the axes are (batch, heads, tokens, e).", lambda o: o.transpose(1, 2)),
        ("merged", "The heads of the output are merged; the axes are (batch, heads, tokens, e).", lambda o: o.transpose(1, 2).flatten(2)),
        ("averaged", "The outputs of the heads are averaged; return one for each head.", lambda o: o.mean(1, keepdim=True).expand_as(o)),
        ("detached", "No gradient flows back: the output is detached or made inside no_grad.", Tensor.detach),
        ("last", "Only the output of the last token is returned; return that of all.", lambda o: o[:, :, -1:]),
    ):  # fmt: skip
        yield name, says, {"answer": instead(change)}
    for name in ("query", "key", "value"):

        def given(*arguments, name=name) -> Given:
            x = right.given(*arguments)
            return x._replace(**{name: detached(getattr(x, name))})

        yield (
            f"{name} detached",
            f"No gradient flows back to {name}: it is detached.",
            {"given": given},
        )


SHARED = (features, totals, reading, results)


def limits(right: Summed) -> Found:
    """Features that are nearly right, and sums with something added; not looked for in pairs."""
    least = "The features have a lower limit, or a number is added to them; they may be as near to 0 as they like."
    most = "The features have an upper limit; above 0 they are x + 1, however large."
    other = "The features are those of another function; they are elu(x) + 1."
    scaled = "Queries and keys are divided by sqrt(d) before the features; there is no scale."
    for name, says, change in (
        *((f"at least {x:g}", least, lambda y, x=x: elu_plus_one(y).clamp(min=x)) for x in (0.1, 0.01, 1e-3)),
        *((f"and {x:g}", least, lambda y, x=x: elu_plus_one(y) + x) for x in (0.1, 0.01, 1e-3)),
        *((f"at most {x:g}", most, lambda y, x=x: elu_plus_one(y).clamp(max=x)) for x in (2.0, 5.0, 6.0, 10.0, 100.0)),
        *((f"{f.__name__} plus one", other, lambda y, f=f: f(y) + 1) for f in (F.gelu, F.silu, F.selu, F.leaky_relu)),
        ("not bent", "The features are x + 1 everywhere; below 0 they are exp(x).", lambda y: y + 1),
        ("both scaled", scaled, lambda y: elu_plus_one(y * y.size(-1) ** -0.5)),
    ):  # fmt: skip
        yield name, says, {"query": change, "key": change}
    for eps in (1e-3, 1e-4):
        says = f"{eps:g} is added to the sum of the weights, which is enough to be seen; features of elu + 1 need none."
        yield f"{eps:g} added", says, {"divide": lambda s, t, x, eps=eps: s / (t + eps)}
    for low in (1.0, 0.1, 0.01, 1e-3):
        says = "The sum of the weights has a lower limit; it may be as small as it likes."
        yield f"sum at least {low:g}", says, {"divide": lambda s, t, x, low=low: s / t.clamp(min=low)}  # fmt: skip
