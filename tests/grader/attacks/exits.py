"""Ending, stopping and crashing."""

from grader.attacks import Attacks

ATTACKS = Attacks("exits")
MASK = "causal_mask"


def instead_of_an_answer(name: str, line: str, fuse=False, **how) -> None:
    """The line runs where the answer is called."""
    body = f"\nimport os, sys, signal, ctypes, threading\n\ndef causal_mask(n, m):\n    {line}\n"
    ATTACKS.instead(MASK, name, body, fuse=fuse, **how)


ATTACKS.beside(
    MASK, "a cell ends the process with success", "import os\nos._exit(0)\n", right=True, earns=1
)
instead_of_an_answer("an answer ends the process with success", "os._exit(0)")
instead_of_an_answer("an answer ends the process with an odd status", "os._exit(77)")
instead_of_an_answer("an answer exits", "sys.exit(0)")
instead_of_an_answer("an answer exits with its verdict", "raise SystemExit({'points': 1})")
instead_of_an_answer("an answer interrupts", "raise KeyboardInterrupt")
instead_of_an_answer("an answer ends a generator", "raise GeneratorExit")
instead_of_an_answer("an answer ends an iteration", "raise StopIteration(True)")
instead_of_an_answer("an answer of errors in errors",
    "raise BaseExceptionGroup('g', [KeyboardInterrupt(), ExceptionGroup('h', [SystemExit()] and [ValueError()])])")  # fmt: skip
instead_of_an_answer("an answer runs out of memory by its own account", "raise MemoryError")
instead_of_an_answer("an answer aborts", "os.abort()")
instead_of_an_answer("an answer reads address 0", "ctypes.string_at(0)")
instead_of_an_answer("an answer kills itself", "os.kill(os.getpid(), signal.SIGKILL)")
instead_of_an_answer("an answer stops itself", "os.kill(os.getpid(), signal.SIGSTOP)", endless=True)
instead_of_an_answer("an answer becomes another program", "os.execv('/bin/true', ['true'])")
instead_of_an_answer("an answer becomes a program that waits", "os.execv('/bin/sleep', ['sleep', '@NAP@'])", endless=True)  # fmt: skip
instead_of_an_answer("an exit in a thread",
    "threading.Thread(target=os._exit, args=(0,)).start(); return torch.ones(n, m).bool()")  # fmt: skip
instead_of_an_answer("an alarm that ends it later",
    "signal.setitimer(signal.ITIMER_REAL, 0.001); return torch.ones(n, m).bool()")  # fmt: skip
instead_of_an_answer("a crash of the stack",
    "sys.setrecursionlimit(10**9); f = lambda k: f(k + 1); return f(0)", endless=True)  # fmt: skip
instead_of_an_answer("a code object that crashes the interpreter",
    "return eval((lambda: 0).__code__.replace(co_code=b'\\x64\\xff' * 8, co_consts=()))")  # fmt: skip
ATTACKS.beside(
    MASK,
    "an exit where an object dies",
    """
import os

class Last:
    def __del__(self):
        os._exit(0)

class Late:
    def __repr__(self):
        os._exit(0)
    __str__ = __eq__ = __hash__ = __repr__

def hold():
    keep = Last()
    raise ValueError(Late())

try:
    hold()
except ValueError as error:
    kept = error
""",
)
ATTACKS.beside(
    MASK,
    "an exit at the end of the program",
    """
import atexit, os, signal, threading

atexit.register(os._exit, 0)
threading._register_atexit(os._exit, 0)
for number in range(1, 65):
    try:
        signal.signal(number, lambda *a: os._exit(0))
    except (OSError, ValueError):
        pass
""",
)
ATTACKS.instead(
    MASK,
    "half an answer, then nothing",
    """
import os

calls = []

def causal_mask(n, m):
    calls.append((n, m))
    if len(calls) > 2:
        os._exit(0)
    return torch.ones(n, m, dtype=torch.bool).tril()
""",
)
ATTACKS.beside(
    MASK,
    "all descriptors are closed",
    """
import os

os.closerange(0, 1024)
""",
    right=True,
    earns=1,
)
ATTACKS.instead(
    MASK,
    "numbers outside of all memory",
    """
def causal_mask(n, m):
    mask = torch.ones(n, m, dtype=torch.bool)
    return torch.as_strided(mask, (n, m), (2**40, 2**40))
""",
)
