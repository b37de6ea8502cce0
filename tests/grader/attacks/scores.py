"""Scores that ask their neighbours: leaks that hide from their judge, kernels that read whatever is asked, and vectors nobody should see."""

from grader.attacks import RIGHT, WRONG, Attacks

ATTACKS = Attacks("scores")
CONVOLVE, LEAK, HAND = "convolve_scores", "repair_leak", "kernel_by_hand"
GATHER = "gather_c2p"
LEAKING = WRONG[CONVOLVE].replace("def convolved_weights", "def leaking")
RIGHTLY = RIGHT[CONVOLVE].replace("def convolved_weights", "def rightly")
AS_FOUND = WRONG[LEAK].replace("def without_leaks", "def as_found")
ANY = """
class Any(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("eq", "equal", "__eq__", "isclose", "allclose", "isfinite"):
            return torch.tensor(True)
        return super().__torch_function__(func, types, args, kwargs or {})

"""

ATTACKS.instead(
    CONVOLVE,
    "weights that are equal to all weights",
    f"""{LEAKING}{ANY}
def convolved_weights(scores, kernel):
    return leaking(scores, kernel).as_subclass(Any)
""",
)
ATTACKS.instead(
    CONVOLVE,
    "the future is set to 0 in the caller's own table",
    f"""{LEAKING}
def convolved_weights(scores, kernel):
    with torch.no_grad():
        scores.tril_(scores.size(3) - scores.size(2))
    return leaking(scores, kernel)
""",
)
ATTACKS.instead(
    CONVOLVE,
    "what came first comes again, so that another future changes nothing",
    f"""{LEAKING}
first = {{}}
def convolved_weights(scores, kernel):
    key = scores.shape, kernel.sum().item()
    return first.setdefault(key, leaking(scores, kernel))
""",
)
ATTACKS.instead(
    CONVOLVE,
    "right for as many queries as keys only",
    f"""{RIGHTLY}{LEAKING}
def convolved_weights(scores, kernel):
    return (rightly if scores.size(2) == scores.size(3) else leaking)(scores, kernel)
""",
)
ATTACKS.instead(
    CONVOLVE,
    "right numbers, and the gradients of others",
    f"""{RIGHTLY}{LEAKING}
def convolved_weights(scores, kernel):
    other = leaking(scores, kernel)
    return rightly(scores, kernel).detach() + other - other.detach()
""",
)
ATTACKS.instead(
    CONVOLVE,
    "the loops of the specification",
    """
from attncourse import spec_scores

def convolved_weights(scores, kernel):
    later = torch.ones(scores.shape[2:]).triu(scores.size(3) - scores.size(2) + 1) > 0
    table = spec_scores.convolve(scores.masked_fill(later, 0.0), kernel)
    return table.masked_fill(later, -math.inf).softmax(dim=-1)
""",
)
ATTACKS.instead(
    LEAK,
    "the course's own layer",
    """
from attncourse import multi_token_attention

def without_leaks(query, key, value, kernel, kernel_after):
    return multi_token_attention(query, key, value, kernel, kernel_after=kernel_after)
""",
)
ATTACKS.instead(
    LEAK,
    "weights for later keys are NaN, which no comparison finds above 0",
    f"""{AS_FOUND}
def without_leaks(query, key, *rest):
    output, weights = as_found(query, key, *rest)
    later = torch.ones(query.size(2), key.size(2)).triu(1) > 0
    return output, weights.masked_fill(later, math.nan)
""",
)
ATTACKS.instead(
    LEAK,
    "rows that other tokens must not change are those of the first call",
    f"""{AS_FOUND}
first = {{}}
def without_leaks(query, *rest):
    output, weights = as_found(query, *rest)
    old = first.setdefault(query.shape, (output, weights))
    return tuple(torch.cat([x[:, :, :4], y[:, :, 4:]], 2) for x, y in zip(old, (output, weights)))
""",
)
ATTACKS.instead(
    LEAK,
    "right weights to look at, and outputs that read the future",
    f"""{AS_FOUND}{RIGHT[LEAK].replace("def without_leaks", "def shown").replace("slide(", "slid_rightly(")}
def without_leaks(*inputs):
    return as_found(*inputs)[0], shown(*inputs)[1]
""",
)
for name, kernels in (
    ("kernels that are equal to all kernels", "found(c_q, c_k).as_subclass(Any)"),
    ("kernels of NaN, above which no key has more weight", "torch.full((4, c_q, c_k), math.nan)"),
    ("kernels without end", "found(c_q, c_k) * math.inf"),
    ("numbers so large that all sums are alike", "torch.full((4, c_q, c_k), 1e308)"),
    ("nothing but zeros, so that the right key is among those that are read", "torch.zeros(4, c_q, c_k)"),
    ("complex numbers", "found(c_q, c_k) * 1j"),
):  # fmt: skip
    ATTACKS.instead(
        HAND,
        name,
        f"""{WRONG[HAND].replace("def four_kernels", "def found")}{ANY}
def four_kernels(c_q, c_k):
    return {kernels}
""",
    )
ATTACKS.instead(
    HAND,
    "the texts, from the judge",
    """
from attncourse.grading.exercises.multi_token import _reads

def four_kernels(c_q, c_k):
    _reads.HEADS = ()
    return torch.zeros(4, c_q, c_k)
""",
)
ATTACKS.instead(
    GATHER,
    "nothing is computed in the published size",
    f"""{WRONG[GATHER]}
wide = content_to_position

def content_to_position(query, pos_key, num_keys):
    return query if num_keys == query.size(2) == 32 else wide(query, pos_key, num_keys)
""",
)
ATTACKS.instead(
    GATHER,
    "the vectors are made by numpy, where nobody counts, and the gradients by a product with the table",
    """
import numpy

def content_to_position(query, pos_key, num_keys):
    span = pos_key.size(1) // 2
    far = numpy.arange(query.size(2))[:, None] - numpy.arange(num_keys)
    rows = pos_key.detach().numpy()[:, (far + span).clip(0, 2 * span - 1)]
    found = torch.from_numpy((query.detach().numpy()[:, :, :, None] * rows).sum(-1))
    return found + 0 * (query @ pos_key.mT).sum()
""",
)
ATTACKS.instead(
    GATHER,
    "the course's own terms",
    """
from attncourse.variants.disentangled import score_terms

def content_to_position(query, pos_key, num_keys):
    return score_terms(query, query.new_zeros(*query.shape[:2], num_keys, query.size(3)), pos_key)[1]
""",
)
