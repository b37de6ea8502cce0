"""Exercise head_dim: a layer that rounds head_dim down and runs on the wrong tokens, repaired."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from attncourse import spec
from attncourse.grading.compare import Described, Raised
from attncourse.grading.diagnosis import Mistake
from attncourse.grading.exercise import Accepted, Exercise, Mistakes
from attncourse.grading.layers_judge import Layers, generator
from attncourse.grading.observe import Case, NotAttempted, run

REFUSED = ((10, 3), (512, 7), (7, 2), (8, 3), (6, 4), (4, 8), (9, 0), (12, -3), (12, -5), (100, 64))
SIZES = tuple(
    ("", (embed_dim, num_heads), (2, 3), 1 if embed_dim in (6, 15) else 0.5)
    for embed_dim, num_heads in (
        (6, 2), (6, 1), (6, 3), (6, 6), (15, 5), (1, 1), (16, 8), (32, 16), (48, 4))
)  # fmt: skip
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
STARTS = "what it builds starts with numbers of float32 that can learn"
DRAWN = "a pair drawn at random that does not divide is refused with a ValueError"


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
        projections = self.q_proj, self.k_proj, self.v_proj
        q, k, v = (p(x).view(shape).transpose(1, 2) for p in projections)
        weights = torch.softmax(q @ k.transpose(2, 3) / self.head_dim**0.5, dim=-1)
        out = (weights @ v).transpose(1, 2).contiguous().view(x.size(0), -1, self.embed_dim)
        return self.out_proj(out)


class Definition(AsFound):
    """The loops of the course."""

    def forward(self, x):
        params = {name: p.double() for name, p in self.named_parameters()}
        return spec.multi_head_attention(*[x.double()] * 3, params, self.num_heads)[0]


@dataclass(frozen=True)
class Refusals:
    """Judges which pairs are refused, and what is built of the others."""

    built: Layers

    def observe(self, answer: Any, seed: int) -> Iterator[tuple[str, Any]]:
        for what, found in self.built.observe(answer, seed):
            refused = what.endswith(", layer") and isinstance(found, Raised)
            yield what, Described(f"raised {found.kind}: {found.message}") if refused else found
        if isinstance(answer, nn.Module):
            return
        yield STARTS, run(starts, answer, *SIZES[0][1])
        for pair in REFUSED:
            yield refused_with(*pair), refusal(answer, *pair)
        a, b, c = torch.randint(10, (3,), generator=generator("refused", seed)).tolist()
        yield DRAWN, refusal(answer, (3 + a) * (13 + b) + 1 + c % (2 + a), 3 + a)

    def expected(self, seed: int) -> dict[str, Any]:
        more = STARTS, *(refused_with(*pair) for pair in REFUSED), DRAWN
        return self.built.expected(seed) | dict.fromkeys(more, True)


def refused_with(embed_dim: int, num_heads: int) -> str:
    return f"embed_dim={embed_dim}, num_heads={num_heads} is refused with a ValueError"


def refusal(answer, embed_dim: int, num_heads: int):
    """True, or what happened instead of a ValueError in the constructor."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            layer = run(answer, embed_dim, num_heads)
        except NotAttempted:  # other pairs were built, so this is no stub
            layer = Raised("NotImplementedError")
    if isinstance(layer, Raised) and "should return None" in layer.message:
        return "the constructor returns something"
    if isinstance(layer, Raised):
        return layer.kind == "ValueError" or f"{layer.kind} in the constructor"
    seen = "it is built, with a warning" if said else "it is built"
    if embed_dim < 100:
        tried = [run(layer, torch.zeros(1, n, embed_dim)) for n in (5, embed_dim - 1)]
        seen += f", runs on {sum(not isinstance(x, Raised) for x in tried)} of 2 inputs"
    numbers = run(lambda: sum(p.numel() for p in layer.parameters()))
    return f"{seen} and learns {'no' if isinstance(numbers, Raised) else numbers} numbers"


def starts(answer, *pair: int):
    """True, or what is wrong with the parameters of a layer that was just built."""
    named = dict(answer(*pair).named_parameters())
    if wrong := [name for name in PROJECTIONS if not named[f"{name}.weight"].any()]:
        return f"all 0: {', '.join(wrong)}"
    return {p.dtype for p in named.values()} == {torch.float32} or "not of float32"


JUDGE = Refusals(Layers(
    Definition, "embed_dim num_heads", SIZES, calls=lambda n, seed: [Case("", ())],
    drawn=lambda a, b, c: ((5 * a + b + 6) * (3 + c), 5 * a + b + 6),
))  # fmt: skip


def odd(e, h):
    return h < 1 or e % h != 0


def layer(wrong=odd, error=ValueError, change=lambda e, h: (e, h), before=None, after=None):
    """The layer as found with another constructor: it raises where ``wrong(embed_dim, num_heads)`` holds."""

    class Layer(AsFound):
        def __init__(self, embed_dim, num_heads):
            if wrong(embed_dim, num_heads):
                raise error("embed_dim must be a multiple of num_heads")
            if before is not None and before(self, embed_dim, num_heads):
                return
            super().__init__(*change(embed_dim, num_heads))
            if after is not None:
                after(self)

    return Layer


ACCEPTED = Accepted(
    Remainder=layer(),
    Divisors=layer(lambda e, h: h not in [d for d in range(1, e + 1) if e % d == 0]),
)


@ACCEPTED.add
class Product(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads <= 0:
            raise ValueError("num_heads must be positive")
        super().__init__(embed_dim, num_heads)
        if self.head_dim * num_heads != embed_dim:
            raise ValueError("embed_dim must be a multiple of num_heads")


@ACCEPTED.add
class OnItsOwn(nn.Module):
    class DivisionError(ValueError):
        pass

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        if num_heads < 1 or divmod(embed_dim, num_heads)[1]:
            raise self.DivisionError("no equal heads")
        self.num_heads = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(embed_dim, embed_dim) for _ in range(4)
        )

    def forward(self, x):
        projections = self.q_proj, self.k_proj, self.v_proj
        q, k, v = (torch.stack(p(x).chunk(self.num_heads, -1), 1) for p in projections)
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(torch.cat(out.unbind(1), -1))


class Returned(AsFound):
    def __init__(self, embed_dim, num_heads):
        if odd(embed_dim, num_heads):
            return ValueError("embed_dim must be a multiple of num_heads")
        return super().__init__(embed_dim, num_heads)


def never(e, h):
    return False


class Late(AsFound):
    def forward(self, x):
        if odd(self.embed_dim, self.num_heads):
            raise ValueError("embed_dim must be a multiple of num_heads")
        return super().forward(x)


MISTAKES = Mistakes(Mistake(says, answer) for says, answer in (
    ("Nothing is checked: this is the layer as found. Raise a ValueError in the constructor.", AsFound),
    ("A warning lets the layer be built; raise a ValueError.",
     layer(never, before=lambda x, e, h: h > 0 and e % h and warnings.warn("no equal heads", stacklevel=2))),
    ("An assert raises AssertionError and vanishes under python -O; raise ValueError.",
     layer(error=AssertionError)),
    ("Raise a ValueError, which says that an argument is wrong, not a RuntimeError.",
     layer(error=RuntimeError)),
    ("Raise a ValueError, which says that the value of an argument is wrong; a TypeError is for its type.",
     layer(error=TypeError)),
    ("The ValueError is returned; raise it.", Returned),
    ("Raise a ValueError; a bare Exception cannot be caught without catching everything.",
     layer(error=Exception)),
    ("Raise a ValueError; NotImplementedError says that code is still to be written.",
     layer(error=NotImplementedError)),
    ("num_heads=0 divides by zero before your message; check num_heads < 1 first.",
     layer(lambda e, h: e % h != 0 or h < 0)),
    ("A negative num_heads passes: 12 % -3 is 0. Check num_heads < 1 as well.",
     layer(lambda e, h: h == 0 or e % h != 0)),
    ("num_heads < 1 is not looked at: 12 % -3 is 0, and % 0 raises ZeroDivisionError.",
     layer(lambda e, h: e % h != 0)),
    ("`and` refuses only a pair that breaks both rules; write `or`.", layer(lambda e, h: h < 1 and e % h != 0)),
    ("Only num_heads < 1 is refused; it must also divide embed_dim.", layer(lambda e, h: h < 1)),
    ("Only num_heads > embed_dim and num_heads < 1 are refused; it must divide embed_dim.",
     layer(lambda e, h: not 1 <= h <= e)),
    ("The test is the wrong way round: pairs that divide are refused, others are built.",
     layer(lambda e, h: h > 0 and e % h == 0)),
    ("The test is the wrong way round: pairs that divide are refused, others are built.",
     layer(lambda e, h: h < 1 or e % h == 0)),
    ("The operands are exchanged: test embed_dim % num_heads, not num_heads % embed_dim.",
     layer(lambda e, h: h < 1 or h % e != 0)),
    ("embed_dim is divided by head_dim, which was rounded; divide it by num_heads.",
     layer(lambda e, h: h < 1 or h > e or e % (e // h))),
    ("Odd numbers of heads are refused altogether; 3 heads divide 6 well.",
     layer(lambda e, h: odd(e, h) or h % 2)),
    ("num_heads must be a power of two here; every divisor of embed_dim is right.",
     layer(lambda e, h: odd(e, h) or (h > 1 and h & (h - 1)))),
    ("A head_dim of 1 is refused; it is small, but right.", layer(lambda e, h: odd(e, h) or e == h)),
    ("A single head is refused; it is the plain case.", layer(lambda e, h: odd(e, h) or h == 1)),
    ("16 heads of 32 numbers are refused, but 16 divides 32. The size does not matter.",
     layer(lambda e, h: odd(e, h) or h > 8)),
    ("4 heads of 48 numbers are refused, but 4 divides 48. The size does not matter.",
     layer(lambda e, h: odd(e, h) or h == 4)),
    ("Large layers are refused; only num_heads < 1 or a remainder is wrong, whatever the size.",
     layer(lambda e, h: odd(e, h) or e > 16)),
    ("Only the two pairs of the example are refused; refuse every pair that does not divide.",
     layer(lambda e, h: (e, h) in ((10, 3), (512, 7)))),
    ("num_heads is lowered silently to a divisor; raise, so that the caller knows.",
     layer(never, change=lambda e, h: (e, next((d for d in range(min(h, e), 0, -1) if e % d == 0), 1)))),
    ("embed_dim is rounded down silently to a multiple of num_heads; raise instead.",
     layer(never, change=lambda e, h: (e // h * h, h))),
    ("The check stands in forward; the constructor must raise, before anything is trained.", Late),
    ("super().__init__() was never called.", layer(before=lambda *_: True)),
    ("super().__init__() was never called, and nothing is refused.", layer(never, before=lambda *_: True)),
    ("head_dim is a float after /; keep // behind the check.",
     layer(after=lambda x: setattr(x, "head_dim", x.embed_dim / x.num_heads))),
    ("The parameters are frozen; leave requires_grad as it is.", layer(after=lambda x: x.requires_grad_(False))),
    ("The biases are frozen; leave requires_grad as it is.",
     layer(after=lambda x: [x.get_submodule(name).bias.requires_grad_(False) for name in PROJECTIONS])),
    ("The parameters start at 0, so queries and keys never learn; keep those of nn.Linear.",
     layer(after=lambda x: [nn.init.zeros_(p) for p in x.parameters()])),
    ("The layer is not built in float32.", layer(after=lambda x: x.double())),
    ("The constructor returns without its layers; raise a ValueError instead.",
     layer(never, before=lambda x, e, h: odd(e, h) and not nn.Module.__init__(x))),
    ("Pass the class, not an instance.", layer()(6, 2)),
))  # fmt: skip

EXERCISE = Exercise(
    name="head_dim", answer="RepairedAttention", title="Refuse a head_dim that does not fit", kind="Repair",
    points=2, difficulty=2, minutes=10, needs="section 'What the source documents say' of chapter 3",
    judge=JUDGE, accepted=ACCEPTED, mistakes=MISTAKES,
    hints=(
        "The constructor is the only place where both numbers are known before any data comes.",
        "10 % 3 is 1, so 3 does not divide 10. But 12 % -3 is 0, and 9 % 0 raises "
        "ZeroDivisionError.",
        "if num_heads < 1 or embed_dim % num_heads: raise ValueError(...), then super().__init__.",
    ),
)  # fmt: skip
