"""What only one exercise can be asked: kernels that return nothing, tables, caches, leaks, and tiles."""

from grader.attacks import Attacks, right

ANY = """
class Any(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("eq", "equal", "__eq__", "isclose", "allclose", "isfinite", "all"):
            return torch.tensor(True)
        return super().__torch_function__(func, types, args, kwargs or {})
"""
ATTACKS = Attacks("exercises", ANY)
TILE = """
class Ready:
    def run(self, Q, KV, Out, Lse, n, m, scale, D, BLOCK_M, BLOCK_N, *, grid, warmup):
        ROWS
        scores = Q[:n] @ KV[:m, :D].T * scale
        Out[:n], Lse[:n] = scores.softmax(-1) @ KV[:m, D:], scores.logsumexp(-1)
attention_tile = Ready()
"""
for rows, line in {"all rows at once": "", "rows of the grid": "n = min(n, grid[0] * BLOCK_M)"}.items():  # fmt: skip
    ATTACKS.add(f"torch in place of the kernel, {rows}", TILE.replace("ROWS", line), "attention_tile")  # fmt: skip
LEAKY = right("convolve_scores", "rightly")
FOUND = (
    "def later_too(scores, kernel):\n    return rightly(scores, kernel) * 0 + 1 / scores.size(-1)\n"
)
ATTACKS.read(f'''
#: weights that are equal to all weights | exercise=convolve_scores
{LEAKY}{FOUND}
def convolved_weights(scores, kernel):
    return later_too(scores, kernel).as_subclass(Any)
#: right numbers, and the gradients of others | exercise=convolve_scores
{LEAKY}{FOUND}
def convolved_weights(scores, kernel):
    other = later_too(scores, kernel) * kernel.sum()
    return rightly(scores, kernel).detach() + other - other.detach()
#: weights for later keys are NaN, which no comparison finds above 0 | exercise=repair_leak
{right("repair_leak", "rightly")}
def without_leaks(query, key, *rest):
    output, weights = rightly(query, key, *rest)
    return output, weights.masked_fill(torch.ones(query.size(2), key.size(2)).triu(1) > 0, math.nan)
#: every token is made global, so that a full mask is right | exercise=global_rule
def visible_pairs(is_global, lengths, left, right, causal):
    is_global.fill_(True)
    lengths.fill_(is_global.size(1))
    mask = torch.ones(len(lengths), 1, *[is_global.size(1)] * 2, dtype=torch.bool)
    return mask.tril() if causal else mask
#: positions that are what they are compared with | exercise=rolling_cache
class Fits(int):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __lt__ = __gt__ = __ne__ = lambda self, other: False
    __hash__ = int.__hash__
class RepairedRolling(RollingAsFound):
    def append(self, new):
        tokens, positions = super().append(new)
        return tokens, [Fits(p) for p in positions]
#: output and lse are exchanged for those of the block, which autograd can do | exercise=block_gradients
def block_gradients(query, key, value, output, lse, grad_output):
    scores = query @ key.mT / query.size(-1) ** 0.5
    lse.data, output.data = scores.logsumexp(-1), scores.softmax(-1) @ value
    inputs = [x.detach().requires_grad_() for x in (query, key, value)]
    with torch.enable_grad():
        again = torch.nn.functional.scaled_dot_product_attention(*inputs)
    return torch.autograd.grad(again, inputs, grad_output)
''' + r'''
#: kernels of NaN, and without end | exercise=kernel_by_hand
def four_kernels(c_q, c_k):
    return torch.full((4, c_q, c_k), math.nan if c_q % 2 else math.inf)
#: all of memory is overwritten with NaN, and made longer than it was | exercise=repair_edge
def repaired_kernel(program, memory, *rest):
    memory.fill_(math.nan)
    memory.resize_(10**6)
#: the first program does the work of all | exercise=repair_edge
def repaired_kernel(program, memory, Q, K, V, Out, n, m, d, block_m, block_n):
    q, k, v = (memory[x : x + a * d].view(-1, d) for x, a in ((Q, n), (K, m), (V, m)))
    memory[Out : Out + n * d] = (torch.softmax(q @ k.T / d**0.5, -1) @ v).flatten()
#: the keys are sorted, and the code stays as it was found | exercise=repair_rescaling
def repaired_attention(query, key, value, size):
    order = (query.mean((1, 2), keepdim=True) @ key.mT).argsort(-1, descending=True).mT
    return attention_as_found(query, key.take_along_dim(order, 2), value.take_along_dim(order, 2), size)
''')  # fmt: skip
