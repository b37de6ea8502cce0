"""Answers that never come, and what they hold on to meanwhile."""

from grader.attacks import WRONG, Attacks

ATTACKS = Attacks("loops")
MASK = "causal_mask"


def never(name: str, body: str, exercise: str = MASK, **how) -> None:
    ATTACKS.instead(exercise, name, body, endless=True, **how)


never("a cell that loops", "while True:\n    pass\n" + WRONG[MASK])
never(
    "an answer that loops",
    """
def causal_mask(n, m):
    while True:
        n += 1
""",
)
never(
    "a loop that catches every interrupt",
    """
def causal_mask(n, m):
    while True:
        try:
            while True:
                n += 1
        except BaseException:
            continue
""",
)
never(
    "a loop that catches what it can name",
    """
def causal_mask(n, m):
    while True:
        try:
            while True:
                n += 1
        except (Exception, KeyboardInterrupt, SystemExit):
            pass
        finally:
            continue
""",
)
never(
    "a loop that is deaf to signals",
    """
import signal

for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))

def causal_mask(n, m):
    while True:
        pass
""",
)
never(
    "one number of a hundred million digits",
    """
def causal_mask(n, m):
    return 7 ** 10**9 % 3 == torch.ones(n, m)
""",
)
never(
    "a pattern that tracks back for ever",
    """
import re

def causal_mask(n, m):
    return re.match("(a|aa)+$", "a" * 60 + "b")
""",
)
never(
    "sleep",
    """
import time

def causal_mask(n, m):
    time.sleep(10**6)
""",
)
never(
    "a lock that nobody opens",
    """
import threading

def causal_mask(n, m):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
""",
)
never(
    "one operation of torch that takes an hour",
    """
def causal_mask(n, m):
    x = torch.rand(3000, 3000, dtype=torch.float64)
    while x.isfinite().any():
        x = torch.linalg.matrix_exp(x @ x)
        x = torch.linalg.svd(torch.rand(3000, 3000, dtype=torch.float64))[0]
""",
)
never(
    "a list without end",
    """
class Endless(list):
    def __iter__(self):
        while True:
            yield self
    def __len__(self):
        while True:
            pass

def causal_mask(n, m):
    return Endless()
""",
)
never(
    "a name that takes for ever to say",
    """
class Slow:
    def __repr__(self):
        while True:
            pass
    __str__ = __hash__ = __bool__ = __len__ = __repr__

    def __eq__(self, other):
        while True:
            pass

def causal_mask(n, m):
    raise ValueError(Slow())
""",
)
never(
    "a gradient that never arrives",
    """
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        while True:
            pass

def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(Slow.apply(query) @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value, weights
""",
    exercise="scaled_dot_product_attention",
)
never(
    "the grader's function is called for ever",
    """
def first_leak(model, x):
    while True:
        try:
            model(x)
        except Exception:
            pass
""",
    exercise="find_the_leak",
)
never(
    "every cell takes its time",
    "import time\n" + "\n".join("time.sleep(0.4)" for _ in range(40)) + WRONG[MASK],
)
never(
    "each call takes nearly as long as it may",
    """
import time

def causal_mask(n, m):
    time.sleep(0.9 * float("@SECONDS@"))
    return torch.ones(n, m, dtype=torch.bool).tril()
""",
)
ATTACKS.instead(
    MASK,
    "recursion without end",
    """
def causal_mask(n, m):
    return causal_mask(n, m)
""",
)
ATTACKS.instead(
    MASK,
    "a generator without end",
    """
def causal_mask(n, m):
    while True:
        yield torch.ones(n, m, dtype=torch.bool)
""",
)
ATTACKS.beside(
    MASK,
    "threads that go on after the answer",
    """
import threading

def spin():
    while True:
        torch.ones(3) + 1

for _ in range(3):
    threading.Thread(target=spin, daemon=False).start()
""",
)
ATTACKS.instead(
    MASK,
    "an object that never dies",
    """
class Undying:
    def __del__(self):
        while True:
            pass

def causal_mask(n, m):
    global kept
    kept = Undying()
    return torch.ones(n, m, dtype=torch.bool)
""",
    endless=True,
)
