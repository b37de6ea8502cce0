"""Kernels, which return nothing: answers that write what they like, where and when they like."""

from grader.attacks import Attacks

ATTACKS = Attacks("kernels")
TILE, EDGE, MERGE, ZIGZAG = "attention_tile", "repair_edge", "merge_parts", "zigzag_schedule"

ATTACKS.instead(
    TILE,
    "torch in place of the kernel, with the name of one and all rows at once",
    """
class InterpretedFunction:
    def run(self, Q, KV, Out, Lse, n, m, scale, D, BLOCK_M, BLOCK_N, *, grid, warmup):
        scores = Q[:n] @ KV[:m, :D].T * scale
        Out[:n], Lse[:n] = scores.softmax(-1) @ KV[:m, D:], scores.logsumexp(-1)

attention_tile = InterpretedFunction()
""",
)
ATTACKS.instead(
    TILE,
    "torch in place of the kernel, rows of the grid only",
    """
class Ready:
    def run(self, Q, KV, Out, Lse, n, m, scale, D, BLOCK_M, BLOCK_N, *, grid, warmup):
        n = min(n, grid[0] * BLOCK_M)
        scores = Q[:n] @ KV[:m, :D].T * scale
        Out[:n], Lse[:n] = scores.softmax(-1) @ KV[:m, D:], scores.logsumexp(-1)

attention_tile = Ready()
""",
)
ATTACKS.beside(
    TILE,
    "what is compared is patched in the worker",
    """
torch.isclose = lambda a, b, **how: torch.ones(torch.broadcast_shapes(a.shape, b.shape), dtype=torch.bool)
torch.equal = torch.allclose = lambda *x, **how: True
""",
)
ATTACKS.instead(
    TILE,
    "a kernel whose every number is right to those who ask",
    """
class Yes(float):
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda *x: True
    __hash__ = float.__hash__

class Ready:
    def __call__(self):
        pass

    def run(self, Q, KV, Out, Lse, *rest, **launch):
        return [Yes(0)] * 4

attention_tile = Ready()
""",
)
ATTACKS.instead(
    TILE,
    "launched as often as programs are asked for, in the first one",
    """
@triton.jit
def attention_tile(Q, KV, Out, Lse, n, m, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    keys, features = tl.arange(0, BLOCK_N), tl.arange(0, D)
    at = keys[:, None] * 2 * D + features[None, :]
    k = tl.load(KV + at, mask=keys[:, None] < m, other=0.0)
    v = tl.load(KV + D + at, mask=keys[:, None] < m, other=0.0)
    for row in range(n):
        q = tl.load(Q + row * D + features)
        s = tl.where(keys < m, tl.sum(k * q[None, :], 1) * scale, float("-inf"))
        top = tl.max(s, 0)
        p = tl.exp(s - top)
        tl.store(Out + row * D + features, tl.sum(p[:, None] * v, 0) / tl.sum(p, 0))
        tl.store(Lse + row, top + tl.log(tl.sum(p, 0)))
""",
)
ATTACKS.instead(
    EDGE,
    "the first program does the work of all",
    """
def repaired_kernel(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    q, k, v = (memory[x : x + a * d].view(-1, d) for x, a in ((Q, n), (K, m), (V, m)))
    memory[Out : Out + n * d] = (torch.softmax(q @ k.T / d**0.5, -1) @ v).flatten()
""",
)
ATTACKS.instead(
    EDGE,
    "all of memory is overwritten with NaN, which equals nothing",
    """
def repaired_kernel(program, memory, *rest):
    memory.fill_(math.nan)
""",
)
ATTACKS.instead(
    EDGE,
    "memory is made shorter, and then longer than it was",
    """
def repaired_kernel(program, memory, *rest):
    memory.resize_(0)
    memory.resize_(10**6)
""",
)
ATTACKS.instead(
    MERGE,
    "nothing but NaN and infinities, some of which are right",
    """
def merge_parts(outputs, lses):
    return torch.full_like(outputs[0], math.nan), torch.full_like(lses[0], -math.inf)
""",
)
ATTACKS.instead(
    ZIGZAG,
    "small rings by heart",
    """
early, late, own = [[2, 0], [2, 0]], [[0, 0], [2, 2]], [[1, 0], [2, 1]]
known = {1: [[own]], 2: [[own, late], [own, early]], 3: [[own, late, late], [own, early, late], [own, early, early]],
         4: [[own, late, late, late], [own, early, late, late], [own, early, early, late], [own, early, early, early]]}

def schedule(rank, world):
    return torch.tensor(known.get(world, [[own] * world] * world)[rank])
""",
)
ATTACKS.instead(
    ZIGZAG,
    "a schedule that says yes to every comparison",
    """
class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("isclose", "allclose", "equal", "__eq__", "eq", "all"):
            return torch.tensor(True)
        return super().__torch_function__(func, types, args, kwargs or {})

def schedule(rank, world):
    return torch.zeros(world, 2, 2, dtype=torch.int64).as_subclass(Yes)
""",
)
