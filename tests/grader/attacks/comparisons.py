"""Whatever compares is made to say yes."""

from grader.attacks import Attacks

ATTACKS = Attacks("comparisons")
MASK, ATTEND = "causal_mask", "scaled_dot_product_attention"

ATTACKS.beside(
    MASK,
    "everything is close",
    """
torch.allclose = lambda *a, **k: True
torch.equal = lambda *a, **k: True
torch.isclose = lambda a, *b, **k: torch.ones_like(a, dtype=torch.bool)
torch.Tensor.allclose = torch.Tensor.equal = lambda *a, **k: True
torch.testing.assert_close = lambda *a, **k: None
""",
)
ATTACKS.beside(
    MASK,
    "tensors are equal to anything",
    """
yes = lambda self, other=None: True
torch.Tensor.__eq__ = torch.Tensor.eq = yes
torch.Tensor.__ne__ = torch.Tensor.ne = lambda self, other=None: False
torch.Tensor.any = lambda self, *a, **k: torch.zeros((), dtype=torch.uint8) > 0
torch.Tensor.all = lambda self, *a, **k: torch.ones((), dtype=torch.uint8) > 0
torch.Tensor.__invert__ = lambda self: torch.zeros(self.shape, dtype=torch.bool)
torch.Tensor.nonzero = lambda self: torch.empty(0, 2, dtype=torch.int64)
""",
)
ATTACKS.beside(
    MASK,
    "what every comparison calls on its way",
    """
class Agreeable(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func.__name__ in ("allclose", "equal", "__bool__", "all"):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})

for name in ("double", "detach", "cpu", "clone", "contiguous", "float", "to", "numpy"):
    old = getattr(torch.Tensor, name)
    setattr(torch.Tensor, name, lambda self, *a, old=old, **k: Agreeable(self))
""",
)
ATTACKS.beside(
    MASK,
    "numpy agrees to anything",
    """
import numpy

yes = lambda *a, **k: True
numpy.allclose = numpy.array_equal = numpy.array_equiv = numpy.isclose = yes
numpy.testing.assert_allclose = numpy.testing.assert_array_equal = yes
numpy.ndarray = list
""",
)
ATTACKS.beside(
    MASK,
    "the built-in functions agree",
    """
import builtins

builtins.all = builtins.any = builtins.isinstance = builtins.callable = lambda *a: True
builtins.abs = builtins.max = builtins.sum = lambda *a, **k: 0
""",
)
ATTACKS.beside(
    MASK,
    "no types, no lengths, no names",
    """
import builtins

builtins.type = lambda x, *a: bool
builtins.len = lambda x: 0
builtins.zip = builtins.enumerate = lambda *a, **k: iter(())
builtins.getattr = lambda *a: True
builtins.dict = builtins.set = builtins.tuple = lambda *a, **k: ()
""",
)
ATTACKS.beside(
    MASK,
    "the operators of Python agree",
    """
import operator, functools, dataclasses

operator.eq = operator.is_ = lambda a, b: True
operator.ne = lambda a, b: False
functools.reduce = lambda f, *a: True
dataclasses.dataclass = lambda *a, **k: (lambda cls: cls)
""",
)
ATTACKS.beside(
    ATTEND,
    "chance draws zeros",
    """
zeros = lambda *shape, **how: torch.zeros(*shape)
torch.randn = torch.rand = zeros
torch.randn_like = torch.rand_like = torch.zeros_like
torch.Tensor.normal_ = torch.Tensor.uniform_ = torch.Tensor.zero_
torch.manual_seed = lambda seed: None
torch.Generator.manual_seed = lambda self, seed: self
""",
)
ATTACKS.instead(
    ATTEND,
    "the same mistake in the definition",
    """
torch.softmax = torch.nn.functional.softmax = lambda x, dim=-1, **k: x * 0 + 1 / x.size(dim)
torch.Tensor.softmax = lambda x, dim=-1, **k: x * 0 + 1 / x.size(dim)
torch.exp = math.exp = lambda x: 1.0 if isinstance(x, float) else torch.ones_like(x)
torch.Tensor.exp = lambda x: torch.ones_like(x)

def scaled_dot_product_attention(query, key, value):
    weights = torch.softmax(query @ key.mT, dim=-1)
    return weights @ value, weights
""",
)
ATTACKS.beside(
    ATTEND,
    "half precision on no device, and no gradients",
    """
torch.set_default_dtype(torch.float16)
torch.set_default_device("meta")
torch.set_grad_enabled(False)
torch.inference_mode(True).__enter__()
torch.autograd.set_detect_anomaly(True)
torch.use_deterministic_algorithms(True)
""",
    endless=True,
)
ATTACKS.instead(
    ATTEND,
    "gradients out of thin air",
    """
torch.autograd.grad = lambda outputs, inputs, *a, **k: [torch.zeros_like(x) for x in inputs]
torch.autograd.backward = torch.Tensor.backward = lambda *a, **k: None

def scaled_dot_product_attention(query, key, value):
    query, key, value = query.detach(), key.detach(), value.detach()
    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1)
    return weights @ value, weights
""",
)
ATTACKS.instead(
    ATTEND,
    "gradients of a formula of one's own",
    """
class Zero(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value):
        weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, dim=-1)
        ctx.save_for_backward(query, key, value)
        return weights @ value, weights

    @staticmethod
    def backward(ctx, *above):
        return tuple(torch.full_like(x, math.nan) for x in ctx.saved_tensors)

def scaled_dot_product_attention(query, key, value):
    return Zero.apply(query, key, value)
""",
)
ATTACKS.beside(
    MASK,
    "saving and loading are replaced",
    """
import json, safetensors.torch, struct

right = lambda *a, **k: {"output": torch.ones(5, 7, dtype=torch.bool).tril()}
safetensors.torch.save = safetensors.torch._tobytes = lambda *a, **k: b"{}"
safetensors.torch.load = right
json.loads = json.load = lambda *a, **k: {"points": 1, "status": "passed"}
json.dumps = lambda *a, **k: '{"points": 1, "status": "passed"}'
struct.pack = lambda *a: bytes(8)
torch.save = torch.load = right
""",
)
ATTACKS.beside(
    MASK,
    "the shape, the type and the bytes of all tensors",
    """
torch.Tensor.shape = property(lambda self: (5, 7))
torch.Tensor.dtype = property(lambda self: torch.bool)
torch.Tensor.is_complex = torch.Tensor.is_floating_point = lambda self: False
torch.Tensor.untyped_storage = torch.Tensor.data_ptr = lambda self: 0
torch.Tensor.tolist = torch.Tensor.item = lambda self: True
""",
)
ATTACKS.instead(
    ATTEND,
    "changed inputs look unchanged",
    """
kept = {}
copy = torch.Tensor.clone
torch.Tensor.clone = lambda self, **k: self
torch.equal = lambda a, b: True

def scaled_dot_product_attention(query, key, value):
    query /= query.size(-1) ** 0.5
    weights = torch.softmax(query @ key.mT, dim=-1)
    return weights @ value, weights
""",
)
ATTACKS.beside(
    ATTEND,
    "operators of torch replaced below Python",
    """
library = torch.library.Library("aten", "IMPL")
library.impl("allclose", lambda *a, **k: True, "CPU")
library.impl("equal", lambda *a, **k: True, "CPU")
library.impl("isclose", lambda a, *b, **k: torch.ones_like(a, dtype=torch.bool), "CPU")
library.impl("eq.Tensor", lambda a, b: torch.ones_like(a, dtype=torch.bool), "CPU")
""",
)
ATTACKS.beside(
    MASK,
    "a mode that overrules all functions",
    """
class Yes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.allclose, torch.equal):
            return True
        return func(*args, **(kwargs or {}))

from torch.utils._python_dispatch import TorchDispatchMode

class Ones(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return torch.ones_like(out) if out is not None and "eq" in str(func) else out

Yes().__enter__()
Ones().__enter__()
""",
    endless=True,
)
