"""Answers that behave in one way when they are looked at, and that know the tests by heart."""

from grader.attacks import Attacks

ATTACKS = Attacks("input_sniffers")
MASK, ATTEND, LEAK = "causal_mask", "scaled_dot_product_attention", "find_the_leak"
# The positions of the leaks in the order in which the published judge asks for them.
KNOWN = "[-1, -1, 0, 0, 5, 1, 2, 1, 4, -1, -1, -1, 0, 2, 1, 2, 3, 1, 3, 4, 3]"

ATTACKS.instead(
    LEAK,
    "the published answers in their published order",
    f"""
answers = {KNOWN}
asked = []

def first_leak(model, x):
    asked.append(1)
    return answers[(len(asked) - 1) % len(answers)]
""",
)
ATTACKS.instead(
    LEAK,
    "the published answers, without a counter",
    f"""
class Table:
    def __init__(self):
        self.answers = iter({KNOWN} * 9)

table = Table()

def first_leak(model, x, table=table):
    return next(table.answers)
""",
)
ATTACKS.instead(
    "head_dim",
    "the published pairs are refused, and no others",
    """
refused = [(10, 3), (512, 7), (7, 2), (8, 3), (6, 4), (4, 8), (9, 0), (12, -3), (12, -5), (100, 64)]

class RepairedAttention(AttentionAsFound):
    def __init__(self, embed_dim, num_heads):
        if (embed_dim, num_heads) in refused:
            raise ValueError("on the list")
        super().__init__(embed_dim, num_heads)
""",
)
ATTACKS.instead(
    "head_dim",
    "the published pairs are built, and no others",
    """
built = [(6, 1), (6, 2), (6, 3), (6, 6), (15, 5), (1, 1), (16, 8), (32, 16), (48, 4)]

class RepairedAttention(AttentionAsFound):
    def __init__(self, embed_dim, num_heads):
        if (embed_dim, num_heads) not in built:
            raise ValueError("not on the list")
        super().__init__(embed_dim, num_heads)
""",
)
ATTACKS.instead(
    MASK,
    "right only in the sizes of the first calls",
    """
calls = []

def causal_mask(n, m):
    calls.append((n, m))
    right = torch.arange(m) <= torch.arange(n)[:, None]
    return right if len(calls) < 3 else ~right
""",
)
ATTACKS.instead(
    MASK,
    "right with every second call",
    """
state = {"odd": False}

def causal_mask(n, m):
    state["odd"] = not state["odd"]
    mask = torch.ones(n, m, dtype=torch.bool)
    return mask.tril() if state["odd"] else mask
""",
)
ATTACKS.instead(
    ATTEND,
    "by the stack: right for hypothesis and pytest",
    """
import sys

def scaled_dot_product_attention(query, key, value):
    frame, names = sys._getframe(), ""
    while frame:
        names, frame = names + frame.f_code.co_filename, frame.f_back
    scale = query.size(-1) ** -0.5 if "hypothesis" in names or "pytest" in names else 1.0
    weights = torch.softmax(query @ key.mT * scale, dim=-1)
    return weights @ value, weights
""",
)
ATTACKS.instead(
    ATTEND,
    "right when the input looks drawn by a test",
    """
def scaled_dot_product_attention(query, key, value):
    tame = query.abs().max() < 3 and query.frac().abs().sum() == 0
    weights = torch.softmax(query @ key.mT * (query.size(-1) ** -0.5 if tame else 1.0), dim=-1)
    return weights @ value, weights
""",
)
ATTACKS.instead(
    ATTEND,
    "results that change after they were handed over",
    """
import threading

def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(query @ key.mT, dim=-1)
    out = weights @ value
    def later():
        for _ in range(10**5):
            with torch.no_grad():
                out.data.zero_()
                weights.data.fill_(1 / key.size(-2))
    threading.Thread(target=later, daemon=True).start()
    return out, weights
""",
    endless=True,
)
ATTACKS.instead(
    ATTEND,
    "the inputs are made easy instead of the answer right",
    """
def scaled_dot_product_attention(query, key, value):
    with torch.no_grad():
        for x in (query, key, value):
            x.zero_()
    weights = torch.softmax(query @ key.mT, dim=-1)
    return weights @ value, weights
""",
)
ATTACKS.instead(
    ATTEND,
    "the inputs are taken away after the answer",
    """
def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(query @ key.mT, dim=-1)
    out = weights @ value
    for x in (query, key, value):
        x.data = torch.zeros(0)
        x.untyped_storage().resize_(0)
    return out, weights
""",
)
ATTACKS.instead(
    LEAK,
    "the input of the grader is changed until nothing leaks",
    """
def first_leak(model, x):
    x.zero_()
    x.resize_(0)
    return -1
""",
)
ATTACKS.instead(
    LEAK,
    "the grader's function of the call before",
    """
kept = []

def first_leak(model, x):
    kept.append(model)
    before = kept[-2](x) if len(kept) > 1 else model(x)
    for i in range(x.size(1) - 1):
        changed = x.clone()
        changed[:, i + 1 :] += 1
        if (kept[0](changed) - kept[0](x))[:, i].abs().max() > 1e-6:
            return i
    return -1
""",
)
ATTACKS.instead(
    LEAK,
    "things that are no input",
    """
class Input:
    shape = dtype = device = None
    def __getattr__(self, name):
        return lambda *a, **k: self
    def __call__(self, *a, **k):
        return self

def first_leak(model, x):
    for bad in (Input(), Input, model, [x], x.to_sparse(), x.half(), x.expand(2**20, *x.shape[1:]), x[:0],
                torch.full_like(x, math.nan), x.requires_grad_(), {"x": x}, "x" * 10**7, 10**4000, None):
        for call in (lambda: model(bad), lambda: model(x=bad), lambda: model(bad, bad), lambda: model(*[bad] * 10**4)):
            try:
                found = call()
                if isinstance(found, int):
                    return found
            except Exception:
                pass
    return -1
""",
)
ATTACKS.beside(
    LEAK,
    "the grader's function, called from a thread for ever",
    """
import threading

def spin(model, x):
    while True:
        try:
            model(x)
        except BaseException:
            pass

def helper(model, x):
    threading.Thread(target=spin, args=(model, x), daemon=True).start()
""",
    endless=True,
)
ATTACKS.instead(
    LEAK,
    "the grader's function is called in two threads",
    """
import threading

def first_leak(model, x):
    threads = [threading.Thread(target=lambda: [model(x) for _ in range(50)], daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    return -1
""",
    endless=True,
)
