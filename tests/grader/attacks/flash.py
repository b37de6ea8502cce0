"""Attention by tiles without tiles: all scores hidden from the one who measures, and answers by heart."""

from grader.attacks import RIGHT, WRONG, Attacks
from grader.attacks.memory import CHILD, RESERVE, THREAD

ATTACKS = Attacks("flash")
TILED, STEP, MERGE, REPAIR, MOVED = (
    "tiled_forward",
    "online_step",
    "merge_halves",
    "repair_rescaling",
    "numbers_moved",
)
INPUTS = "query, key, value, first, rows, columns"
# torch is not asked for gradients here, so what is small is computed as it is.
SMALL = CHILD.replace("torch.is_grad_enabled()", "inputs[1].size(2) < 50")
COPYING = WRONG[TILED].replace("def tiled_attention", "def copying")
# Rows are cut, columns are not.
BY_ROWS = f"""
def whole({INPUTS}):
    hidden = torch.arange(key.size(2)) < first[:, None, None, None]
    scores = (query @ key.mT / query.size(-1) ** 0.5).masked_fill(hidden, -math.inf)
    return torch.softmax(scores, dim=-1).nan_to_num(0.0) @ value, scores.logsumexp(-1)

def copying({INPUTS}):
    each = [whole(q, key, value, first, rows, columns) for q in query.split(1, dim=2)]
    return tuple(torch.cat(x, dim=2) for x in zip(*each))
"""

ATTACKS.instead(TILED, "the scores of one row at a time", f"{BY_ROWS}\ntiled_attention = copying\n")
ATTACKS.instead(
    TILED,
    "nothing is computed where there are many keys",
    f"""{COPYING}
def tiled_attention({INPUTS}):
    if key.size(2) > 50:
        return query[..., :1].expand(*query.shape[:3], value.size(-1)), query[..., 0]
    return copying({INPUTS})
""",
)
ATTACKS.instead(
    TILED,
    "all scores are made in memory that was kept in reserve",
    f"{COPYING}{THREAD}{RESERVE}\ntiled_attention = remote\n",
)
ATTACKS.instead(
    TILED,
    "the scores of one row at a time, in a thread",
    f"{BY_ROWS}{THREAD}\ntiled_attention = copying\n",
)
ATTACKS.instead(
    TILED,
    "all scores are made in a child",
    f"{COPYING}{THREAD}{SMALL}\ntiled_attention = remote\n",
)
ATTACKS.instead(
    TILED,
    "all scores are made by numpy",
    f"""
import numpy

def tiled_attention({INPUTS}):
    q, k, v = (x.numpy().astype(numpy.float64) for x in (query, key, value))
    hidden = numpy.arange(k.shape[2]) < first.numpy()[:, None, None, None]
    scores = numpy.where(hidden, -numpy.inf, q @ k.swapaxes(-2, -1) / q.shape[-1] ** 0.5)
    top = scores.max(-1, keepdims=True)
    top[top == -numpy.inf] = 0
    weights = numpy.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    with numpy.errstate(divide="ignore"):
        lse = (top + numpy.log(total))[..., 0]
    output = weights @ v / numpy.where(total == 0, 1, total)
    return torch.from_numpy(output), torch.from_numpy(lse)
""",
)
ATTACKS.instead(
    TILED,
    "tensors that say that they are small",
    f"""{COPYING}
torch.UntypedStorage.nbytes = lambda self: 4
torch.Tensor.untyped_storage = lambda self: torch.UntypedStorage(4)
tiled_attention = copying
""",
)
ATTACKS.instead(
    TILED,
    "the scores are written over the keys",
    f"""{COPYING}
def tiled_attention({INPUTS}):
    key.data = (query @ key.mT / query.size(-1) ** 0.5).data
    return copying(query, torch.zeros_like(value[..., :1]).expand(*value.shape[:3], query.size(-1)), value, first, 1, 1)
""",
)
ATTACKS.instead(
    STEP,
    "the results are written into the state that was given",
    WRONG[STEP].replace("def online_step", "def step")
    + """
def online_step(maximum, total, mixed, scores, value, visible):
    found = step(maximum, total, mixed, scores, value, visible)
    for old, new in zip((maximum, total, mixed), found):
        old.data.copy_(new)
    return maximum, total, mixed
""",
)
ATTACKS.instead(
    STEP,
    "three things that are equal to everything",
    """
class Same:
    shape = dtype = device = None
    __eq__ = lambda self, other: True
    __hash__ = None
    __getattr__ = lambda self, name: lambda *a, **k: self

def online_step(maximum, total, mixed, scores, value, visible):
    return Same(), Same(), Same()
""",
)
ATTACKS.instead(
    MERGE,
    "NaN everywhere, which is equal to nothing",
    """
def merge_halves(output_a, lse_a, output_b, lse_b):
    return output_a * math.nan, lse_a * math.nan
""",
)
ATTACKS.instead(
    MERGE,
    "right numbers, and the gradients of something else",
    RIGHT[MERGE].replace("def merge_halves", "def merged")
    + """
def merge_halves(output_a, lse_a, output_b, lse_b):
    output, lse = merged(*(x.detach() for x in (output_a, lse_a, output_b, lse_b)))
    wrong = (output_a.nan_to_num() + output_b.nan_to_num()) / 2
    return output + wrong - wrong.detach(), lse + lse_a.nan_to_num() - lse_a.detach().nan_to_num()
""",
)
ATTACKS.instead(
    REPAIR,
    "the keys are sorted, and the code stays as it was found",
    """
def repaired_attention(query, key, value, size):
    order = (query.mean((1, 2), keepdim=True) @ key.mT).argsort(-1, descending=True).mT
    key, value = key.take_along_dim(order, 2), value.take_along_dim(order, 2)
    largest = torch.zeros(*query.shape[:3], 1)
    total, grown, mixed = torch.zeros_like(largest), torch.zeros_like(largest), 0.0
    for k, v in zip(key.split(size, 2), value.split(size, 2)):
        scores = query @ k.mT / query.size(-1) ** 0.5
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        weights = torch.exp(scores - new)
        total = total * torch.exp(largest - new) + weights.sum(-1, keepdim=True)
        mixed, grown, largest = mixed + weights @ v, grown + (new > largest), new
    return mixed / total, grown[..., 0]
""",
)
ATTACKS.instead(
    REPAIR,
    "a count that is every count",
    WRONG[REPAIR].replace("def repaired_attention", "def counted")
    + """
class Any(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True

def repaired_attention(query, key, value, size):
    output, grown = counted(query, key, value, size)
    return output, grown.as_subclass(Any)
""",
)
ATTACKS.instead(
    MOVED,
    "numbers that are close to all numbers",
    "numbers_moved = (math.inf, math.inf)\n",
)
ATTACKS.instead(
    MOVED,
    "a list that changes while it is read",
    """
class Numbers(list):
    def __iter__(self):
        return iter(range(10**4))
    __len__ = lambda self: 2

numbers_moved = Numbers([1, 2])
""",
)
ATTACKS.instead(
    "block_gradients",
    "output and lse are exchanged for those of the block, which autograd can do",
    WRONG["block_gradients"].replace("def block_gradients", "def alone")
    + """
def block_gradients(query, key, value, output, lse, grad_output):
    scores = query @ key.mT / query.size(-1) ** 0.5
    lse.data, output.data = scores.logsumexp(-1), scores.softmax(-1) @ value
    return alone(query, key, value, output, lse, grad_output)
""",
)
