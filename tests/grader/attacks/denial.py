"""Against the process that judges: replies that take its time or its memory, or come without end."""

from grader.attacks import Attacks, right

# A judge that gives up has not judged: what it cannot hold is nobody's point, and nobody else's trouble.
ATTACKS = Attacks("denial", ends="", endless=True)
ATTEND = "scaled_dot_product_attention"
BODY = f"{right(ATTEND, 'attend')}def scaled_dot_product_attention(query, key, value):\n    right = attend(query, key, value)\n"

for what in (
    "[(query.sum() * 0).expand(2**24)] * 30",
    "[(query.sum() * 0).expand(2**24)] * 4000",
    "[torch.zeros(()).expand(2**24)] * 4000",
    "(*right, *right * 5000)",
    "{k * (2**61 - 1): 0 for k in range(40_000)}",
    "[1e400, 2**5000, -(10**4400), 10**10**6]",
    "['[' * 10**6, '<script>' * 10**6, bytes(10**7)]",
):
    ATTACKS.add(f"an answer that returns {what}", f"{BODY}    return {what}\n", ATTEND)
for what in ("'[' * 40_000", "'[' * 10**7", "'(a, ' * 10**5 + ')' * 10**5"):
    ATTACKS.when_called(f"an error that says {what}", f"raise ValueError({what})")
ATTACKS.read(r"""
#: a fraction of numbers without end, and a text that would be one | exercise=crossover
from fractions import Fraction as Ratio
largest_n = [Ratio(10**4400 + 1, 10**4399), "1e300000000"]
#: a cache that asks with new memory every time | exercise=append
class RepairedCache(CacheAsFound):
    def append(self, new):
        super().append(new)
        return torch.zeros(25 * 2**20).expand(3, -1)[:, : self.length]
#: the grader computes with a hundred megabytes of graph, again and again | exercise=find_the_leak
def first_leak(model, x):
    for k in range(12):
        try:
            model(torch.zeros(25 * 2**20, dtype=x.dtype).expand(1, 25 * 2**20)[:, : x[0].numel()].view(x.shape).requires_grad_())
            model(torch.zeros(1, 1, x.size(2), dtype=x.dtype).expand(2**20, x.size(1), x.size(2)).requires_grad_())
        except Exception:
            pass
    return -1
#: things that are no input of the grader's function | exercise=find_the_leak
class Input:
    shape = dtype = device = None
    __getattr__ = __call__ = lambda self, *a, **k: self
def first_leak(model, x):
    for bad in (Input(), Input, model, [x], x.to_sparse(), x.half(), x.expand(2**20, *x.shape[1:]), x[:0], None,
                torch.full_like(x, math.nan), {"x": x}, "x" * 10**7, 10**4000):
        for call in (lambda: model(bad), lambda: model(x=bad), lambda: model(bad, bad), lambda: model(*[bad] * 10**4)):
            try:
                found = call()
                if isinstance(found, int):
                    return found
            except Exception:
                pass
    x.zero_()
    return -1
#: the grader's function, in four threads | exercise=find_the_leak
import threading
def first_leak(model, x):
    for _ in range(4):
        threading.Thread(target=lambda: [model(x) for _ in range(50)], daemon=True).start()
    return -1
""")
