"""Ending, stopping, crashing, and never coming to an end."""

from grader.attacks import Attacks

ATTACKS = Attacks("exits", "import ctypes, os, re, signal, sys, threading, time\n")

for line in (
    "raise SystemExit({'points': 1})",
    "raise KeyboardInterrupt",
    "raise GeneratorExit",
    "raise BaseExceptionGroup('g', [KeyboardInterrupt(), ExceptionGroup('h', [ValueError()])])",
    "raise MemoryError",
    "return causal_mask(n, m)",
    "yield torch.ones(n, m, dtype=torch.bool)",
):
    ATTACKS.when_called(f"an answer that says: {line}", line)
ENDED = {"ends": "did not finish"}
for line in ("os._exit(0)", "ctypes.string_at(0)", "os._exit(0) if n < 3 else None"):
    ATTACKS.when_called(f"an answer that says: {line}", line, **ENDED)
for line in (
    "os.execv('/bin/sleep', ['sleep', '@NAP@'])",
    "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True:\n    try: time.sleep(10**6)\n    except BaseException: pass",
    "time.sleep(0.9 * float('@SECONDS@'))",
):
    ATTACKS.when_called(f"an answer that says: {line}", line, endless=True, **ENDED)
ATTACKS.read(r'''
#: a gradient that never arrives | exercise=scaled_dot_product_attention | endless
class Slow(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x.clone())
    backward = staticmethod(lambda ctx, grad: time.sleep(10**6))
def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(Slow.apply(query) @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value, weights
#: the grader's function is called for ever | exercise=find_the_leak | endless
def first_leak(model, x):
    while True:
        model(x)
#: an object that never dies, in an error whose name takes for ever to say | endless
class Slow:
    def __repr__(self):
        while True:
            pass
    __str__ = __hash__ = __bool__ = __len__ = __eq__ = __del__ = __repr__
def causal_mask(n, m):
    raise ValueError(Slow())
''', **ENDED)  # fmt: skip
ATTACKS.read(r"""
#: a cell that loops | endless | ends=
while True: pass
#: a cell that ends the process with success | right | earns=1 | ends=passed
os._exit(0)
#: all descriptors are closed | right | earns=1 | ends=passed
os.closerange(0, 1024)
#: an exit where an object dies, where it is shown, and at the end of the program | ends=
import atexit
class Last:
    def __del__(self):
        os._exit(0)
    __repr__ = __str__ = __eq__ = __hash__ = __del__
def hold():
    raise ValueError(Last())
atexit.register(os._exit, 0)
threading._register_atexit(os._exit, 0)
try:
    hold()
except ValueError as error:
    kept = error
""")
