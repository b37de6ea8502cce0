"""Tables of who reads whom, and how many do: equal to everything, by heart, or made of changed inputs."""

from grader.attacks import RIGHT, WRONG, Attacks

ATTACKS = Attacks("tables")
RULE, LAYERS, PLAN, PAIRS = "global_rule", "layers_needed", "repair_plan", "pairs_read"
ANY = """
class Any(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("eq", "equal", "__eq__", "isclose", "allclose"):
            return torch.tensor(True)
        return super().__torch_function__(func, types, args, kwargs or {})

"""

ATTACKS.instead(
    RULE,
    "a mask that is equal to every mask",
    WRONG[RULE].replace("def visible_pairs", "def near")
    + ANY
    + """
def visible_pairs(*inputs):
    return near(*inputs).as_subclass(Any)
""",
)
ATTACKS.instead(
    RULE,
    "every token is made global, so that a full mask is right",
    """
def visible_pairs(is_global, lengths, left, right, causal):
    is_global.fill_(True)
    lengths.fill_(is_global.size(1))
    mask = torch.ones(len(lengths), 1, *[is_global.size(1)] * 2, dtype=torch.bool)
    return mask.tril() if causal else mask
""",
)
ATTACKS.instead(
    RULE,
    "the loops of the specification",
    """
from attncourse import spec, spec_sparse

def visible_pairs(is_global, lengths, left, right, causal):
    n = is_global.size(1)
    mask = spec_sparse.longformer_mask(is_global, left, right)
    real = torch.arange(n) < lengths[:, None]
    mask = mask & real[:, None, None] & real[:, None, :, None]
    return mask & spec.causal(n, n) if causal else mask
""",
)
ATTACKS.instead(
    RULE,
    "right for short sequences only",
    RIGHT[RULE].replace("def visible_pairs", "def right")
    + """
def visible_pairs(is_global, *rest):
    found = right(is_global, *rest)
    return found if is_global.size(1) < 10 else ~found
""",
)
ATTACKS.instead(
    LAYERS,
    "the masks are filled, so that one layer suffices",
    """
def heard_after(masks):
    masks.fill_(True)
    return 1 - torch.eye(masks.size(1)).long()
""",
)
ATTACKS.instead(
    LAYERS,
    "the course's own hops, where all layers are alike, and a guess where they are not",
    """
from attncourse.lab import reach

def heard_after(masks):
    return reach.hops(masks.any(0)).clamp(max=len(masks))
""",
)
ATTACKS.instead(
    LAYERS,
    "NaN everywhere, which is neither too early nor too late",
    """
def heard_after(masks):
    return torch.full(masks.shape[1:], math.nan)
""",
)
ATTACKS.instead(
    LAYERS,
    "what the judge expects, from the judge",
    """
from attncourse.grading import load

def heard_after(masks):
    return load("layers_needed").judge.spec(masks)
""",
)
ATTACKS.instead(
    PLAN,
    "the draws of all heads are made those of head 0",
    RIGHT[PLAN].replace("def repaired_plan", "def right")
    + """
def repaired_plan(draws, num_random):
    draws.copy_(draws[:1].expand_as(draws).clone())
    return right(draws, num_random)
""",
)
ATTACKS.instead(
    PLAN,
    "a plan that is equal to every plan",
    WRONG[PLAN].replace("def repaired_plan", "def found")
    + ANY
    + """
def repaired_plan(*inputs):
    return found(*inputs).as_subclass(Any)
""",
)
ATTACKS.instead(
    PLAN,
    "the accepted answer of the judge, from its file",
    """
import importlib

found = importlib.import_module("attncourse.grading." + "exercises.global_local.repair_plan")

def repaired_plan(draws, num_random):
    return found.RIGHT(draws, num_random)
""",
)
ATTACKS.instead(
    PAIRS,
    "a number that is equal to every number",
    """
class Any(int):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __hash__ = int.__hash__
    __index__ = lambda self: self

def pairs_read(n, left, right, num_global):
    return Any(n)
""",
)
ATTACKS.instead(
    PAIRS,
    "the small ones by heart, a guess for the others",
    """
HEART = {(6, 1, 1, 1): 24, (8, 2, 1, 0): 28, (9, 1, 3, 2): 60, (7, 3, 0, 3): 43, (5, 2, 2, 5): 25,
         (6, 9, 7, 1): 36, (10, 0, 0, 2): 44, (1, 1, 0, 1): 1}

def pairs_read(*sizes):
    n, left, right, k = sizes
    return HEART.get(sizes, n * (1 + left + right) + 2 * n * k)
""",
)
ATTACKS.instead(
    PAIRS,
    "all numbers at once",
    """
def pairs_read(n, left, right, num_global):
    return range(n * n + 1) if n < 100 else torch.arange(10)
""",
)
