"""Windows that are linear only where they are measured, and caches whose positions fit whatever is asked."""

from grader.attacks import RIGHT, WRONG, Attacks

ATTACKS = Attacks("windows")
LINEAR, REACH, ROLLING = "linear_window", "receptive_field", "rolling_cache"
MIX = "query, key, value, window_size"
QUADRATIC = WRONG[LINEAR].replace("def linear_mix", "def quadratic")

ATTACKS.instead(
    LINEAR,
    "numbers are wasted where tokens are few, so that nothing seems to grow",
    f"""{QUADRATIC}
def linear_mix({MIX}):
    if query.size(2) == 128:
        torch.zeros(20, 128, 128)
    return quadratic({MIX})
""",
)
ATTACKS.instead(
    LINEAR,
    "nothing is computed where no gradient is asked for",
    f"""{QUADRATIC}
def linear_mix({MIX}):
    return quadratic({MIX}) if torch.is_grad_enabled() else value
""",
)
ATTACKS.instead(
    LINEAR,
    "torch's own window, which makes the table where nothing is compiled",
    f"""
from torch.nn.attention import flex_attention as flex

flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True

def linear_mix({MIX}):
    def near(score, b, h, i, j):
        return torch.where((i - j).abs() <= window_size // 2, score, -math.inf)

    return flex.flex_attention(query, key, value, score_mod=near)
""",
)
ATTACKS.instead(
    LINEAR,
    "the course's own window",
    f"""
from attncourse import sliding_window_attention

def linear_mix({MIX}):
    return sliding_window_attention({MIX.replace("window_size", "(window_size // 2,) * 2")})
""",
)
ATTACKS.instead(
    REACH,
    "a pair that is equal to every pair",
    """
class Pair(tuple):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = None

def heard_and_kept(windows, position):
    return Pair((0, 0))
""",
)
ATTACKS.instead(
    REACH,
    "the windows are emptied, so that nothing is heard and nothing kept",
    """
def heard_and_kept(windows, position):
    windows.clear()
    return position, 0
""",
)
ATTACKS.instead(
    ROLLING,
    "positions that are what they are compared with",
    WRONG[ROLLING].replace("class RepairedRolling", "class Late")
    + """
class Fits(int):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __lt__ = __gt__ = __ne__ = lambda self, other: False
    __hash__ = int.__hash__

class RepairedRolling(Late):
    def append(self, new):
        tokens, positions = super().append(new)
        return tokens, [Fits(p) for p in positions]
""",
)
ATTACKS.instead(
    ROLLING,
    "all tokens are kept, in a tensor that shows as many as are asked for",
    RIGHT[ROLLING].replace("class RepairedRolling", "class Right")
    + """
class RepairedRolling(Right):
    def append(self, new):
        self.all = torch.cat([getattr(self, "all", new[:, :, :0]), new], dim=2)
        tokens, positions = super().append(new)
        return self.all[:, :, positions], positions
""",
)
ATTACKS.instead(
    LINEAR,
    "the table of all pairs is made by numpy, which torch cannot count, with gradients",
    f"""
import numpy

class Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx, {MIX}):
        q, k, v = (x.detach().numpy() for x in (query, key, value))
        at = numpy.arange(q.shape[2])
        scores = q @ k.swapaxes(2, 3) / q.shape[3] ** 0.5
        scores[..., abs(at[:, None] - at) > window_size // 2] = -numpy.inf
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        ctx.kept = q, k, v, weights / weights.sum(-1, keepdims=True)
        return torch.from_numpy(ctx.kept[3] @ v)

    @staticmethod
    def backward(ctx, grad_output):
        q, k, v, weights = ctx.kept
        grad = grad_output.detach().numpy()
        d = weights * (grad @ v.swapaxes(2, 3))
        d = (d - weights * d.sum(-1, keepdims=True)) / q.shape[3] ** 0.5
        found = d @ k, d.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ grad
        return *(torch.from_numpy(x) for x in found), None

def linear_mix({MIX}):
    return Hidden.apply({MIX})
""",
)
ATTACKS.instead(
    ROLLING,
    "positions that are found among the variables of the one who feeds the cache",
    WRONG[ROLLING].replace("class RepairedRolling", "class Late")
    + """
import sys

class RepairedRolling(Late):
    def append(self, new):
        tokens, positions = super().append(new)
        frame = sys._getframe(1)
        while frame is not None:
            for value in frame.f_locals.values():
                if isinstance(value, (list, tuple, torch.Tensor)) and len(value) == len(positions):
                    if all(int(p) == p and 0 <= p < self.length for p in value):
                        return tokens, value
            frame = frame.f_back
        return tokens, positions
""",
)
