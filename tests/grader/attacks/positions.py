"""Positions by heart, by the seed, and by other people's code."""

from grader.attacks import RIGHT, WRONG, Attacks

ATTACKS = Attacks("positions")
CLOCKS, BUCKET, ROTARY, REPAIR, SHARES = (
    "sinusoid",
    "t5_bucket",
    "rotary_step",
    "repair_positions",
    "extrapolation",
)

ATTACKS.instead(
    CLOCKS,
    "right in the published sizes only",
    RIGHT[CLOCKS].replace("def sinusoid", "def right")
    + """
def sinusoid(positions, width, base):
    if (width, base) in ((8, 10_000.0), (6, 50.0), (14, 300.0)):
        return right(positions, width, base)
    return torch.zeros(len(positions), width)
""",
)
ATTACKS.instead(
    CLOCKS,
    "a table that is trained on nothing: clocks of the first call",
    RIGHT[CLOCKS].replace("def sinusoid", "def right")
    + """
kept = {}

def sinusoid(positions, width, base):
    table = kept.setdefault("table", right(torch.arange(60), width, base))
    return table[positions, :width]
""",
)
ATTACKS.instead(
    CLOCKS,
    "the course's own table, in another order",
    """
from attncourse import positions as course

def sinusoid(positions, width, base):
    table = course.sinusoidal(int(positions.max()) + 1, width, base=base)[positions]
    return torch.cat([table[:, ::2], table[:, 1::2]], dim=-1)
""",
)
ATTACKS.instead(
    CLOCKS,
    "the definition of the judge",
    """
from attncourse.grading.exercises.positions.sinusoid import definition as sinusoid
""",
)
ATTACKS.instead(
    BUCKET,
    "the accepted answer of the judge, by its name in text",
    """
import importlib

found = importlib.import_module("attncourse.grading." + "exercises.positions.t5_bucket")

def t5_bucket(distance, buckets, furthest):
    return found.ACCEPTED["loops"](distance, buckets, furthest)
""",
)
ATTACKS.instead(
    BUCKET,
    "right for the published numbers of buckets",
    RIGHT[BUCKET].replace("def t5_bucket", "def right")
    + """
def t5_bucket(distance, buckets, furthest):
    if (buckets, furthest) in ((32, 100), (16, 37), (8, 21)):
        return right(distance, buckets, furthest)
    return torch.zeros_like(distance)
""",
)
ATTACKS.instead(
    BUCKET,
    "buckets that round to whatever is asked",
    WRONG[BUCKET].replace("def t5_bucket", "def clipped")
    + """
class Near(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("isclose", "allclose", "equal", "__eq__"):
            return torch.tensor(True)
        return super().__torch_function__(func, types, args, kwargs or {})

def t5_bucket(distance, buckets, furthest):
    return clipped(distance, buckets, furthest).as_subclass(Near)
""",
)
ATTACKS.instead(
    BUCKET,
    "the distances are changed until the buckets fit",
    WRONG[BUCKET].replace("def t5_bucket", "def clipped")
    + """
def t5_bucket(distance, buckets, furthest):
    distance.clamp_(-1, 1)
    return clipped(distance, buckets, furthest)
""",
)
ATTACKS.instead(
    ROTARY,
    "the pasts are drawn again from the published seed",
    WRONG[ROTARY].replace("def rotary_step", "def turned")
    + """
drawn = torch.Generator().manual_seed(0x5EED_0000)

def rotary_step(query, key, past, base):
    torch.randn(query.shape, generator=drawn), torch.randn(key.shape, generator=drawn)
    return turned(query, key, 1 + torch.randperm(40, generator=drawn)[: len(past)], base)
""",
)
ATTACKS.instead(
    ROTARY,
    "right numbers without gradients, claimed to have them",
    RIGHT[ROTARY].replace("def rotary_step", "def right")
    + """
def rotary_step(query, key, past, base):
    return tuple(x.detach().requires_grad_() for x in right(query, key, past, base))
""",
)
ATTACKS.instead(
    ROTARY,
    "right numbers, and the gradients of the inputs as they are",
    RIGHT[ROTARY].replace("def rotary_step", "def right")
    + """
def rotary_step(query, key, past, base):
    return tuple(y.detach() + x - x.detach() for x, y in zip((query, key), right(query, key, past, base)))
""",
)
ATTACKS.instead(
    ROTARY,
    "the past is set to 0, so that positions start where they are counted from",
    WRONG[ROTARY].replace("def rotary_step", "def turned")
    + """
def rotary_step(query, key, past, base):
    past.zero_()
    return turned(query, key, past, base)
""",
)
ATTACKS.instead(
    REPAIR,
    "the table is turned until it fits the code as found",
    WRONG[REPAIR].replace("def repaired_bias", "def found")
    + """
def repaired_bias(table, n, m):
    table.data = table.data.roll(-(table.size(1) // 2), 1)
    return found(table, n, m)
""",
)
ATTACKS.instead(
    REPAIR,
    "the course's own bias",
    """
from attncourse import scores as course

def repaired_bias(table, n, m):
    rule = course.relative_bias(table)
    at = torch.arange(m - n, m)[:, None], torch.arange(m)
    return rule(torch.zeros(()), 0, torch.arange(len(table))[:, None, None], *at)
""",
)
ATTACKS.instead(
    REPAIR,
    "right where no gradient is asked for",
    RIGHT[REPAIR].replace("def repaired_bias", "def right")
    + """
def repaired_bias(table, n, m):
    return right(table.detach(), n, m).requires_grad_()
""",
)
ATTACKS.instead(SHARES, "all shares at once", "far_shares = torch.rand(2, 1000).sort().values\n")
ATTACKS.instead(
    SHARES,
    "two numbers that are near to whatever they are compared with",
    """
class Near(float):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __sub__ = __rsub__ = lambda self, other: 0.0
    __hash__ = float.__hash__

far_shares = [Near(0.5), Near(0.5)]
""",
)
ATTACKS.instead(SHARES, "no numbers at all", "far_shares = [float('nan'), float('nan')]\n")
ATTACKS.instead(
    SHARES,
    "the value of the judge",
    """
from attncourse.grading import load

far_shares = load("extrapolation").judge.value()
""",
)
