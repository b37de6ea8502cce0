"""Answers of absurd size, shape, type, device and depth."""

from grader.attacks import Attacks

ATTACKS = Attacks("absurd", "import functools, numpy\none = torch.ones(1)\n")

for expression in (
    "one.bool().expand(10**13)",
    "[one.expand(4000, 4000)] * 1000",
    "[torch.ones(1) for _ in range(30_000)]",
    "torch.ones(n, m, dtype=torch.bool, device='meta')",
    "torch.ones(n, m).tril().to_sparse()",
    "torch.quantize_per_tensor(torch.ones(n, m), 0.1, 0, torch.quint8)",
    "torch.ones(n, m, dtype=torch.complex64).conj()",
    "torch.ones(n + m).bool().as_strided((n, m), (1, 1))",
    "torch.full((n, m), math.nan)",
    "torch.as_strided(torch.ones(n, m), (n, m), (2**40, 2**40))",
    "'<script>' * 10**6",
    r"'\udc80\ud800\0\x1b[2J\u202e' + chr(0xFFFF)",
    "10**10**6",
    "functools.reduce(lambda x, _: (x,), range(10**4), True)",
    "{frozenset({one, 'a', None}), 1.5}",
    "type('tensor', (), {'shape': (n, m)})",
    "torch",
    "causal_mask",
    "numpy.array([[object()] * m] * n)",
    "numpy.zeros((n, m), dtype=[('f%d' % i, 'i1') for i in range(1000)])",
):
    ATTACKS.when_called(f"an answer that returns {expression}", f"return {expression}")
ATTACKS.read(r"""
#: a list and a dict that hold themselves | called
x, y = [torch.ones(n, m, dtype=torch.bool)], {}
x.append(x)
y[lambda: y] = y["y"] = (x, y)
return [x, y]
#: an empty tensor of a huge shape, and a thousand million numbers with stride 0 | called | ends=
return torch.empty(0, 2**40, 2**20) if n < 5 else numpy.broadcast_to(True, (10**5, 10**5))
#: a graph as deep as memory allows | exercise=scaled_dot_product_attention | ends=
def scaled_dot_product_attention(query, key, value):
    for _ in range(3000):
        query = query * 1.0001 + 1e-5
    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value, weights
#: a position that is no position | exercise=find_the_leak
answers = iter([math.nan, 1e400, "0", None, [0], True, torch.tensor(True), -1j, 2**5000] * 99)
def first_leak(model, x):
    return next(answers)
""")
