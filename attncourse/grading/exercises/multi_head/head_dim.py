"""Exercise head_dim: a layer that rounds head_dim down and runs on the wrong tokens, repaired."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.compare import Described, Raised, difference
from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistake, Mistakes
from attncourse.grading.inputs import seeded
from attncourse.grading.layers_judge import Layers, merge, split
from attncourse.grading.noticing import shaped
from attncourse.grading.observe import Case, NotAttempted, run
from attncourse.grading.symptoms import symptom

REFUSED = ((10, 3), (512, 7), (7, 2), (8, 3), (6, 4), (4, 8), (9, 0), (12, -3), (12, -5), (100, 64))
BUILT = ((6, 2), (6, 1), (6, 3), (6, 6), (15, 5), (1, 1), (16, 8), (32, 16), (48, 4))
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
NAMES = (
    "what it builds starts with numbers of float32 that can learn",
    *(f"embed_dim={e}, num_heads={h} is refused with a ValueError" for e, h in REFUSED),
    "a pair drawn at random that does not divide is refused with a ValueError",
)


class AsFound(nn.Module):
    """The layer of the statement: nothing stops a head_dim that was rounded down."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        for name in PROJECTIONS:
            setattr(self, name, nn.Linear(embed_dim, embed_dim))

    def forward(self, x):
        shape = x.size(0), -1, self.num_heads, self.head_dim
        q, k, v = (self.get_submodule(p)(x).view(shape).transpose(1, 2) for p in PROJECTIONS[:3])
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(out.transpose(1, 2).reshape(x.size(0), -1, self.embed_dim))


class Definition(AsFound):
    """The loops of the course."""

    def forward(self, x):
        params = {name: p.double() for name, p in self.named_parameters()}
        return spec.multi_head_attention(*[x.double()] * 3, params, self.num_heads)[0]


@dataclass(frozen=True)
class ClassFacts:
    """Judges the layers that a class builds, each of them prepared first, and then facts of the class."""

    layers: Layers
    facts: Facts
    prepare: Callable[[nn.Module], nn.Module] = lambda layer: layer
    look: Callable[..., str] = lambda case, expected, seen: ""

    def notice(self, expected, seen, seed: int) -> str:
        """What a `noticing` look tells of the first output that is wrong."""
        if says := symptom(expected, seen):
            return says
        outputs = [what for what in expected if what.endswith(", output") and what in seen]
        wrong = [what for what in outputs if difference(expected[what], seen[what])]
        if not wrong or not shaped(expected[wrong[0]], seen[wrong[0]]):
            return ""
        return self.look(None, expected[wrong[0]], seen[wrong[0]])

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        builds = False
        for what, found in self.layers.observe(self.prepared(answer), seed):
            refused = what.endswith(", layer") and isinstance(found, Raised)
            yield what, Described(f"raised {found.kind}: {found.message}") if refused else found
            builds = builds or (what, found) == ("is a class", True)
        if builds:  # else each fact would say the same
            yield from self.facts.observe(answer, seed)

    def prepared(self, answer: Any) -> Any:
        """Builds what the answer builds, prepared, and takes the same arguments."""
        if isinstance(answer, nn.Module | torch.Tensor) or not callable(answer):
            return answer

        def build(*sizes):
            return self.prepare(answer(*sizes))

        build.__wrapped__ = answer  # whose signature is asked for
        return build

    def expected(self, seed: int) -> dict[str, Any]:
        return self.layers.expected(seed) | self.facts.expected(seed)


def of_the_constructor(answer, seed: int) -> Iterator[tuple[str, Any]]:
    """How it starts, and whether it refuses the pairs of the list and one that is drawn."""
    a, b, c = torch.randint(10, (3,), generator=seeded(seed, "refused")).tolist()
    drawn = (3 + a) * (13 + b) + 1 + c % (2 + a), 3 + a
    yield NAMES[0], run(starts, answer)
    for name, pair in zip(NAMES[1:], (*REFUSED, drawn), strict=True):
        yield name, refusal(answer, *pair)


def refusal(answer, embed_dim: int, num_heads: int):
    """True, or what happened instead of a ValueError in the constructor."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            layer = run(answer, embed_dim, num_heads)
        except NotAttempted:  # other pairs were built, so this is no stub
            layer = Raised("NotImplementedError")
    if isinstance(layer, Raised):
        return layer.kind == "ValueError" or f"{layer.kind} in the constructor"
    numbers = run(lambda: sum(p.numel() for p in layer.parameters()))
    used = getattr(run(layer, torch.zeros(1, 5, embed_dim)), "kind", "nothing")
    learns = "has no parameters yet" if isinstance(numbers, Raised) else f"learns {numbers} numbers"
    built = f"it is built{' with a warning' if said else ''}, {learns}"
    return f"{built} and raises {used} in forward"


def starts(answer):
    """True, or what is wrong with the parameters of a layer that was just built."""
    named = dict(answer(*BUILT[0]).named_parameters())
    if wrong := [name for name in PROJECTIONS if not named[f"{name}.weight"].any()]:
        return f"all 0: {', '.join(wrong)}"
    if wrong := [name for name in PROJECTIONS if named[f"{name}.weight"].unique().numel() == 1]:
        return f"one number everywhere: {', '.join(wrong)}"
    return {p.dtype for p in named.values()} == {torch.float32} or "not of float32"


LAYERS = Layers(
    Definition, "embed_dim num_heads", drawn=lambda a, b, c: ((5 * a + b + 6) * (3 + c), 5 * a + b + 6),
    sizes=tuple(("", pair, (2, 3), 1 if pair[0] in (6, 15) else 0.5) for pair in BUILT),
    calls=lambda n, seed: [Case("", ())],
)  # fmt: skip


def odd(e, h):
    return h < 1 or e % h != 0


found = AsFound.__init__


def layer(wrong=odd, error=ValueError, build=found, change=lambda layer: None):
    """The layer as found, built in another way; it raises where ``wrong(embed_dim, num_heads)`` holds."""

    class Layer(AsFound):
        def __init__(self, embed_dim, num_heads):
            if wrong(embed_dim, num_heads):
                raise error("embed_dim must be a multiple of num_heads")
            build(self, embed_dim, num_heads)
            change(self)

    return Layer


def setattrs(layer, num_heads, head_dim):
    layer.num_heads, layer.head_dim = num_heads, head_dim


ACCEPTED = Accepted(
    Remainder=layer(error=type("DivisionError", (ValueError,), {})),
    Product=layer(lambda e, h: h <= 0 or e // h * h != e),
    Divisors=layer(lambda e, h: h not in [d for d in range(1, e + 1) if e % d == 0]),
)


@ACCEPTED.add
class OnItsOwn(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        if num_heads < 1 or divmod(embed_dim, num_heads)[1]:
            raise ValueError("no equal heads")
        self.num_heads, linear = num_heads, partial(nn.Linear, embed_dim)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = map(linear, [embed_dim] * 4)

    def forward(self, x):
        q, k, v = (split(p(x), self.num_heads) for p in (self.q_proj, self.k_proj, self.v_proj))
        weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, dim=-1)
        return self.out_proj(merge(weights @ v))


class Late(AsFound):
    def forward(self, x):
        if odd(self.embed_dim, self.num_heads):
            raise ValueError("embed_dim must be a multiple of num_heads")
        return super().forward(x)


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("Nothing is checked: this is the layer as found. Raise a ValueError in the constructor.", AsFound),
    ("The check stands in forward; the constructor must raise, before anything is trained.", Late),
    ("Pass the class, not an instance.", layer()(6, 2)),
    ("super().__init__() was never called.", layer(build=lambda *_: None)),
    *((says, layer(error=error)) for says, error in (
        ("An assert raises AssertionError and vanishes under python -O; raise ValueError.", AssertionError),
        ("Raise a ValueError, which says that an argument is wrong, not a RuntimeError.", RuntimeError),
        ("Raise a ValueError; a bare Exception cannot be caught without catching everything.", Exception),
        ("Raise a ValueError; NotImplementedError says that code is still to be written.", NotImplementedError),
    )),
    *((says, layer(lambda e, h: False, build=build)) for says, build in (
        *(("A warning lets the layer be built; raise a ValueError.", lambda x, e, h, least=least: [
            h > least and e % h and warnings.warn("no equal heads", stacklevel=2), found(x, e, h)])
          for least in (0, -9)),
        ("num_heads is lowered silently to a divisor; raise, so that the caller knows.",
         lambda x, e, h: found(x, e, next((d for d in range(min(h, e), 0, -1) if e % d == 0), 1))),
        ("embed_dim is rounded down silently; raise instead.", lambda x, e, h: found(x, e // h * h, h)),
        ("super().__init__() was never called, and nothing is refused.", lambda *_: None),
        ("The constructor returns without its layers; raise a ValueError instead.",
         lambda x, e, h: nn.Module.__init__(x) if odd(e, h) else found(x, e, h)),
    )),
    *((says, layer(change=change)) for says, change in (
        ("head_dim is a float after /; keep //.", lambda x: setattr(x, "head_dim", x.embed_dim / x.num_heads)),
        ("The parameters are frozen; leave requires_grad as it is.", lambda x: x.requires_grad_(False)),
        ("Parameters start at 0; keep those of nn.Linear.", lambda x: [nn.init.zeros_(p) for p in x.parameters()]),
        ("The layer is not built in float32.", lambda x: x.double()),
        ("All weights start at the same number, so all heads stay alike; keep those of nn.Linear.",
         lambda x: [nn.init.ones_(p) for p in x.parameters()]),
        ("num_heads and head_dim are exchanged.", lambda x: setattrs(x, x.head_dim, x.num_heads)),
        ("One head works in the whole width, whatever num_heads says.", lambda x: setattrs(x, 1, x.embed_dim)),
        ("Every head is as wide as embed_dim; head_dim is embed_dim // num_heads.",
         lambda x: setattrs(x, x.num_heads, x.embed_dim)),
    )),
    *((says, layer(wrong)) for says, wrong in (
        ("num_heads=0 divides by zero before your message; check it first.", lambda e, h: h < 0 or e % h),
        ("A negative num_heads passes: 12 % -3 is 0. Check num_heads < 1, too.", lambda e, h: h == 0 or e % h),
        ("num_heads < 1 is not looked at: 12 % -3 is 0, and % 0 raises ZeroDivisionError.", lambda e, h: e % h),
        ("`and` refuses only a pair that breaks both rules; write `or`.", lambda e, h: h < 1 and e % h),
        ("Only num_heads < 1 is refused; it must also divide embed_dim.", lambda e, h: h < 1),
        ("Only num_heads outside 1 to embed_dim is refused; it must divide it.", lambda e, h: not 1 <= h <= e),
        *(("The test is the wrong way round: pairs that divide are refused, others are built.", wrong)
          for wrong in (lambda e, h: h > 0 and e % h == 0, lambda e, h: h < 1 or e % h == 0)),
        ("The operands are exchanged: test embed_dim % num_heads.", lambda e, h: h < 1 or h % e),
        ("embed_dim is divided by head_dim, which was rounded; divide it by num_heads.",
         lambda e, h: not 1 <= h <= e or e % (e // h)),
        ("Only the pairs of the example are refused; refuse all such pairs.", lambda e, h: (e, h) in REFUSED[:2]),
    )),
    *((says, layer(lambda e, h, also=also: odd(e, h) or also(e, h))) for says, also in (
        ("Odd numbers of heads are refused altogether; 3 heads divide 6 well.", lambda e, h: h % 2),
        ("num_heads must be a power of two here; every divisor is right.", lambda e, h: h.bit_count() > 1),
        ("A head_dim of 1 is refused; it is small, but right.", lambda e, h: e == h),
        ("A single head is refused; it is the plain case.", lambda e, h: h == 1),
        ("16 heads of 32 numbers are refused, but 16 divides 32. The size does not matter.", lambda e, h: h > 8),
        ("4 heads of 48 numbers are refused, but 4 divides 48. The size does not matter.", lambda e, h: h == 4),
        ("Large layers are refused; only num_heads < 1 or a remainder is wrong.", lambda e, h: e > 16),
    )),
))  # fmt: skip

EXERCISE = Exercise(
    name="head_dim",
    answer="RepairedAttention",
    judge=ClassFacts(LAYERS, Facts(of_the_constructor, NAMES)),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
