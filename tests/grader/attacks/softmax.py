"""An operator that an exercise does not allow, by every name and through every lock."""

from grader.attacks import Attacks
from grader.attacks.answers import by_softmax

ATTACKS = Attacks("softmax")
F = "torch.nn.functional"
S = f"{F}.scaled_dot_product_attention"


def softmax(name: str, function: str, before: str = "") -> None:
    """``function`` is an expression for torch's scaled_dot_product_attention; ``before``, a cell above."""
    exercise = "repair_no_softmax"
    ATTACKS.instead(exercise, name, by_softmax(function), first=(before,) if before else ())


softmax("by its full name", S)
softmax("by the name below", "torch._C._nn.scaled_dot_product_attention")
softmax("by getattr", f"getattr({F}, 'scaled_dot' + '_product_attention')")
softmax("by the operators", "torch.ops.aten.scaled_dot_product_attention")
softmax("by one overload", "torch.ops.aten.scaled_dot_product_attention.default")
softmax(
    "by the operators, with text",
    "getattr(torch.ops.aten, 'scaled_dot' + '_product_attention')",
)
softmax(
    "by the parts of it",
    "(lambda q, k, v: torch.ops.aten._scaled_dot_product_attention_math(q, k, v)[0])",
)
softmax(
    "by its kernel for the CPU",
    "(lambda q, k, v: torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[0])",
)
softmax(
    "by a lookup of operators",
    "torch._C._jit_get_operation('aten::scaled_dot_product_attention')[0]",
)
softmax(
    "by a script",
    "found",
    f"""
@torch.jit.script
def found(q, k, v):
    return {S}(q, k, v)
""",
)
softmax(
    "by a script in text",
    "found.f",
    """
found = torch.jit.CompilationUnit("def f(q, k, v):\\n    return torch.scaled_dot_product_attention(q, k, v)\\n")
""",
)
softmax(
    "by a trace",
    "found",
    f"""
found = torch.jit.trace(lambda q, k, v: {S}(q, k, v), tuple(torch.randn(3, 1, 2, 3, 4)), check_trace=False)
""",
)
softmax(
    "by flex_attention",
    "found",
    "from torch.nn.attention.flex_attention import flex_attention as found",
)
softmax(
    "by a mode that is entered",
    "(lambda q, k, v: found(q, k, v))",
    f"""
import torch.nn.attention

def found(q, k, v):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return {S}(q, k, v)
""",
)
softmax("by vmap", f"torch.func.vmap({S})")
softmax(
    "by nested tensors",
    f"(lambda q, k, v: {S}(*map(torch.nested.as_nested_tensor, (q, k, v))).to_padded_tensor(0))",
)
softmax(
    "on the device without numbers",
    f"(lambda q, k, v: {S}(q.to('meta'), k.to('meta'), v.to('meta')).to('cpu'))",
)
softmax("in another precision", f"(lambda q, k, v: {S}(q.double(), k.double(), v.double()))")
softmax(
    "with the lock picked",
    f"(unlock(), {S})[1]",
    """
import gc

def unlock():
    for thing in gc.get_objects():
        if isinstance(thing, torch.library.Library):
            thing._destroy()
""",
)
softmax(
    "with the lock broken",
    f"(unlock(), {S})[1]",
    """
def unlock():
    library = torch.library.Library("aten", "IMPL")
    library.m = None
    torch.library._impls.clear()
    for module in list(__import__("sys").modules.values()):
        if hasattr(module, "blocked") and hasattr(module, "FUNCTIONS"):
            module._refusing = lambda name: (lambda *a, **k: None)
""",
)
softmax(
    "below the lock",
    "(lambda q, k, v: found(q, k, v))",
    f"""
import torch._C

def found(q, k, v):
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)):
        return {S}(q, k, v)
""",
)
softmax(
    "before the lock",
    "(lambda q, k, v: next(loop)(q, k, v))",
    """
import types

def forever():
    f = types.FunctionType(torch.nn.TransformerEncoderLayer.forward.__code__, {})
    while True:
        yield torch.ops.aten.scaled_dot_product_attention.default._op

loop = forever()
""",
)
