"""Answers of absurd size, shape, type, device and depth."""

from grader.attacks import RIGHT, Attacks

ATTACKS = Attacks("absurd")
MASK, ATTEND, NUMBER = "causal_mask", "scaled_dot_product_attention", "crossover"


def mask(name: str, expression: str) -> None:
    """An answer that is one expression in n, m and ``one``, a tensor of one number."""
    ATTACKS.instead(MASK, name, f'''
def causal_mask(n, m):
    one = torch.ones(1)
    return {expression}
''')  # fmt: skip


mask("a tensor of 10 million million numbers with stride 0", "one.bool().expand(10**13)")
mask("a thousand large tensors with stride 0", "[one.expand(4000, 4000)] * 1000")
mask("a square of 2**12 with stride 0", "one.bool().expand(2**12, 2**12)")
mask("thirty thousand small tensors", "[torch.ones(1) for _ in range(30_000)]")
mask("a tensor on no device", "torch.ones(n, m, dtype=torch.bool, device='meta')")
mask("a sparse tensor", "torch.ones(n, m).tril().to_sparse()")
mask("a sparse tensor in rows", "torch.ones(n, m).tril().to_sparse_csr()")
mask("a quantized tensor", "torch.quantize_per_tensor(torch.ones(n, m), 0.1, 0, torch.quint8)")
mask("complex numbers", "torch.ones(n, m, dtype=torch.complex64)")
mask("a nested tensor", "torch.nested.nested_tensor([torch.ones(n), torch.ones(m)])")
mask("named axes", "torch.ones(n, m, dtype=torch.bool, names=('n', 'm'))")
mask("a conjugate view", "torch.ones(n, m, dtype=torch.complex64).conj()")
mask("a tensor of 40 axes", "torch.ones([1] * 40).bool()")
mask("an empty tensor of a huge shape", "torch.empty(0, 2**40, 2**20)")
mask("a tensor that overlaps itself", "torch.ones(n + m).bool().as_strided((n, m), (1, 1))")
mask("float8", "torch.ones(n, m).to(torch.float8_e4m3fn)")
mask("bits", "torch.ones(n, m, dtype=torch.uint8).view(torch.bits8)")
mask("unsigned numbers", "torch.ones(n, m, dtype=torch.uint64)")
mask("NaN everywhere", "torch.full((n, m), math.nan)")
mask("infinity everywhere", "torch.full((n, m), math.inf)")
mask("text of ten million letters", "'<script>' * 10**6")
mask("text with half letters and ends of text", r"'\udc80\ud800\0\x1b[2J\u202e' + chr(0xFFFF)")
mask("ten million bytes", "bytes(10**7)")
mask("a number of a million digits", "10**10**6")
mask("a number of a million digits, in a tensor's place", "[10**4400, -(10**4400), 2**4095]")
mask(
    "a tuple ten thousand deep",
    "__import__('functools').reduce(lambda x, _: (x,), range(10**4), True)",
)
mask("a hundred thousand tuples", "[()] * 10**5")
mask("a generator", "(torch.ones(n, m) for _ in range(9))")
mask("a set of sets of everything", "{frozenset({one, 'a', None}), 1.5}")
mask("a class", "type('tensor', (), {'shape': (n, m)})")
mask("a module", "torch")
mask("the function itself", "causal_mask")
mask("an array of objects", "__import__('numpy').array([[object()] * m] * n)")
mask("an array of text", "__import__('numpy').full((n, m), 'True')")
mask(
    "an array with a million fields",
    "__import__('numpy').zeros((n, m), dtype=[('f%d' % i, 'i1') for i in range(1000)])",
)
mask("a masked array", "__import__('numpy').ma.masked_all((n, m), dtype=bool)")
mask(
    "an array of a thousand million numbers with stride 0",
    "__import__('numpy').broadcast_to(True, (10**5, 10**5))",
)
mask("memory that is shared", "torch.ones(n, m).bool().share_memory_()")
ATTACKS.instead(
    MASK,
    "a list that holds itself",
    """
def causal_mask(n, m):
    x = [torch.ones(n, m, dtype=torch.bool)]
    x.append(x)
    return x
""",
)
ATTACKS.instead(
    MASK,
    "a dict that holds itself, as key and value",
    """
def causal_mask(n, m):
    x = {}
    x["x"] = (x, x)
    x[lambda: x] = x
    return x
""",
)
ATTACKS.instead(
    MASK,
    "two to the power of sixty lists",
    """
def causal_mask(n, m):
    x = [torch.ones(n, m, dtype=torch.bool)]
    for _ in range(60):
        x = [x, x]
    return x
""",
    endless=True,
)
ATTACKS.instead(
    ATTEND,
    "ten thousand results, of which the first two are right",
    RIGHT[ATTEND]
    + """
right = scaled_dot_product_attention

def scaled_dot_product_attention(query, key, value):
    return (*right(query, key, value), *right(query, key, value) * 5000)
""",
)
ATTACKS.instead(
    ATTEND,
    "NaN in results and gradients",
    """
def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(query @ key.mT * math.nan, dim=-1)
    return weights @ value, weights
""",
)
ATTACKS.instead(
    ATTEND,
    "a graph as deep as memory allows",
    RIGHT[ATTEND]
    + """
right = scaled_dot_product_attention

def scaled_dot_product_attention(query, key, value):
    for _ in range(3000):
        query = query * 1.0001 + 1e-5
    return right(query, key, value)
""",
)
ATTACKS.instead(NUMBER, "NaN for a number", "largest_n = math.nan\n")
ATTACKS.instead(NUMBER, "infinity for a number", "largest_n = math.inf\n")
ATTACKS.instead(NUMBER, "all numbers at once", "largest_n = list(range(10**5))\n")
ATTACKS.instead(NUMBER, "all numbers at once, in a tensor", "largest_n = torch.arange(10**6)\n")
ATTACKS.instead(NUMBER, "a number that is true", "largest_n = True\n")
ATTACKS.instead(NUMBER, "a number of ten thousand digits", "largest_n = 81 * 10**10000\n")
ATTACKS.instead(
    NUMBER,
    "ten thousand digits behind the point",
    """
from fractions import Fraction
from decimal import Decimal

largest_n = [Fraction(10**4400 + 1, 10**4399), Decimal("8e999999")]
""",
)
ATTACKS.instead(
    "find_the_leak",
    "a position that is no position",
    """
answers = iter([math.nan, 1e400, "0", None, [0], True, torch.tensor(True), -1j, 2**5000] * 99)

def first_leak(model, x):
    return next(answers)
""",
)
