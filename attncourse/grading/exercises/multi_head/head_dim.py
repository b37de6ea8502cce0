"""Exercise head_dim: a layer that rounds head_dim down and runs on the wrong tokens, repaired."""

import warnings

import torch
from torch import nn

from attncourse.grading.exercise import Accepted, Exercise, Facts, Mistakes
from attncourse.grading.exercises.multi_head._head_dim_judge import NAMES, AsFound, facts

ACCEPTED = Accepted()


@ACCEPTED.add
class Remainder(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads < 1 or embed_dim % num_heads != 0:
            raise ValueError(f"num_heads={num_heads} must divide embed_dim={embed_dim}")
        super().__init__(embed_dim, num_heads)


@ACCEPTED.add
class Product(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads <= 0:
            raise ValueError("num_heads must be positive")
        super().__init__(embed_dim, num_heads)
        if self.head_dim * num_heads != embed_dim:
            raise ValueError("embed_dim must be a multiple of num_heads")


@ACCEPTED.add
class Divisors(AsFound):
    def __init__(self, embed_dim, num_heads):
        divisors = [h for h in range(1, embed_dim + 1) if embed_dim % h == 0]
        if num_heads not in divisors:
            raise ValueError(f"num_heads must be one of {divisors}; got {num_heads}")
        super().__init__(embed_dim, num_heads)


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
        q, k, v = (
            torch.stack(p(x).chunk(self.num_heads, -1), 1)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out_proj(torch.cat(out.unbind(1), -1))


MISTAKES = Mistakes()


@MISTAKES.add("A warning lets the layer be built; raise a ValueError.")
class Warns(AsFound):
    def __init__(self, embed_dim, num_heads):
        if num_heads > 0 and embed_dim % num_heads:
            warnings.warn("embed_dim is not a multiple of num_heads", stacklevel=2)
        super().__init__(embed_dim, num_heads)


def mistake(says: str, check=None, change=lambda e, h: (e, h)):
    """A layer that checks its arguments wrongly, or changes them before it is built."""

    class Layer(AsFound):
        def __init__(self, embed_dim, num_heads):
            if check is not None:
                check(embed_dim, num_heads)
            super().__init__(*change(embed_dim, num_heads))

    MISTAKES.add(says)(Layer)


def refuse(wrong, error=ValueError):
    """Raise the error where ``wrong(embed_dim, num_heads)`` holds."""

    def check(e, h):
        if wrong(e, h):
            raise error("embed_dim must be a multiple of num_heads")

    return check


def odd(e, h):
    return h < 1 or e % h != 0


def largest_divisor(e, h):
    return e, next((d for d in range(min(h, e), 0, -1) if e % d == 0), 1)


mistake("Nothing is checked: this is the layer as found. Raise a ValueError in the constructor.")
mistake("An assert raises AssertionError and vanishes under python -O; raise ValueError.",
        refuse(odd, AssertionError))  # fmt: skip
mistake("Raise a ValueError, which says that an argument is wrong, not a RuntimeError.",
        refuse(odd, RuntimeError))  # fmt: skip
mistake("Raise a ValueError; a bare Exception cannot be caught without catching everything.",
        refuse(odd, Exception))  # fmt: skip
mistake("num_heads=0 divides by zero before your message; check num_heads < 1 first.",
        refuse(lambda e, h: e % h != 0 or h < 0))  # fmt: skip
mistake("A negative num_heads passes: 12 % -3 is 0. Check num_heads < 1 as well.",
        refuse(lambda e, h: h == 0 or e % h != 0))  # fmt: skip
mistake("num_heads < 1 is not looked at: 12 % -3 is 0, and % 0 raises ZeroDivisionError.",
        refuse(lambda e, h: e % h != 0))  # fmt: skip
mistake("`and` refuses only a pair that breaks both rules; write `or`.",
        refuse(lambda e, h: h < 1 and e % h != 0))  # fmt: skip
mistake("Raise a ValueError; NotImplementedError says that code is still to be written.",
        refuse(odd, lambda says: NotImplementedError(says)))  # fmt: skip
mistake("Only num_heads < 1 is refused; it must also divide embed_dim.", refuse(lambda e, h: h < 1))
mistake("Only num_heads > embed_dim and num_heads < 1 are refused; it must divide embed_dim.",
        refuse(lambda e, h: not 1 <= h <= e))  # fmt: skip
mistake("The test is the wrong way round: pairs that divide are refused, others are built.",
        refuse(lambda e, h: h > 0 and e % h == 0))  # fmt: skip
mistake("The operands are exchanged: test embed_dim % num_heads, not num_heads % embed_dim.",
        refuse(lambda e, h: h < 1 or h % e != 0))  # fmt: skip
mistake("embed_dim is divided by head_dim, which was rounded; divide it by num_heads.",
        refuse(lambda e, h: h < 1 or h > e or e % (e // h)))  # fmt: skip
mistake("Odd numbers of heads are refused altogether; 3 heads divide 6 well.",
        refuse(lambda e, h: odd(e, h) or h % 2))  # fmt: skip
mistake("num_heads must be a power of two here; every divisor of embed_dim is right.",
        refuse(lambda e, h: odd(e, h) or (h > 1 and h & (h - 1))))  # fmt: skip
mistake("A head_dim of 1 is refused; it is small, but right.",
        refuse(lambda e, h: odd(e, h) or e == h))  # fmt: skip
mistake("A single head is refused; it is the plain case.",
        refuse(lambda e, h: odd(e, h) or h == 1))  # fmt: skip
mistake("16 heads of 32 numbers are refused, but 16 divides 32. The size does not matter.",
        refuse(lambda e, h: odd(e, h) or h > 8))  # fmt: skip
mistake("4 heads of 48 numbers are refused, but 4 divides 48. The size does not matter.",
        refuse(lambda e, h: odd(e, h) or h == 4))  # fmt: skip
mistake("Large layers are refused; only num_heads < 1 or a remainder is wrong, whatever the size.",
        refuse(lambda e, h: odd(e, h) or e > 16))  # fmt: skip
mistake("Only the two pairs of the example are refused; refuse every pair that does not divide.",
        refuse(lambda e, h: (e, h) in ((10, 3), (512, 7))))  # fmt: skip
mistake("num_heads is lowered silently to a divisor; raise, so that the caller knows.",
        change=largest_divisor)  # fmt: skip
mistake("embed_dim is rounded down silently to a multiple of num_heads; raise instead.",
        change=lambda e, h: (e // h * h, h))  # fmt: skip


@MISTAKES.add(
    "The check stands in forward; the constructor must raise, before anything is trained."
)
class Late(AsFound):
    def forward(self, x):
        refuse(odd)(self.embed_dim, self.num_heads)
        return super().forward(x)


@MISTAKES.add("super().__init__() was never called.")
class NeverStarted(AsFound):
    def __init__(self, embed_dim, num_heads):
        refuse(odd)(embed_dim, num_heads)


@MISTAKES.add("super().__init__() was never called, and nothing is refused.")
class NeverStartedNorChecked(AsFound):
    def __init__(self, embed_dim, num_heads):
        self.embed_dim, self.num_heads = embed_dim, num_heads


@MISTAKES.add("head_dim is a float after /; keep // behind the check.")
class FloatHeadDim(Remainder):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.head_dim = embed_dim / num_heads


@MISTAKES.add("The parameters are frozen; leave requires_grad as it is.")
class Frozen(Remainder):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.requires_grad_(False)


@MISTAKES.add(
    "The parameters start at 0, so queries and keys never learn; keep those of nn.Linear."
)
class Zeros(Remainder):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        for p in self.parameters():
            nn.init.zeros_(p)


@MISTAKES.add("The constructor returns without its layers; raise a ValueError instead.")
class HalfBuilt(AsFound):
    def __init__(self, embed_dim, num_heads):
        if odd(embed_dim, num_heads):
            nn.Module.__init__(self)
            return
        super().__init__(embed_dim, num_heads)


MISTAKES.add("Pass the class, not an instance.")(Remainder(6, 2))

EXERCISE = Exercise(
    name="head_dim",
    answer="RepairedAttention",
    title="Refuse a head_dim that does not fit",
    kind="Repair",
    points=2,
    difficulty=2,
    minutes=10,
    needs="section 'What the source documents say' of chapter 3",
    judge=Facts(facts, NAMES),
    hints=(
        "The constructor is the only place where both numbers are known before any data comes.",
        "10 % 3 is 1, so 3 does not divide 10. But 12 % -3 is 0, and 9 % 0 raises "
        "ZeroDivisionError.",
        "if num_heads < 1 or embed_dim % num_heads: raise ValueError(...), then super().__init__.",
    ),
    accepted=ACCEPTED,
    mistakes=MISTAKES,
)
