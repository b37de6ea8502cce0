"""Whatever compares, draws, saves or differentiates is made to say yes."""

from grader.attacks import Attacks

ATTACKS = Attacks("comparisons", apart=True)
ATTACKS.read(r"""
#: everything of torch, numpy and the operators is close and equal to anything
import functools, numpy, operator
yes, no = lambda *a, **k: True, lambda *a, **k: False
torch.allclose = torch.equal = torch.testing.assert_close = torch.Tensor.allclose = torch.Tensor.equal = yes
torch.isclose = lambda a, *b, **k: torch.ones_like(a, dtype=torch.bool)
torch.Tensor.__eq__ = torch.Tensor.eq = numpy.allclose = numpy.array_equal = numpy.isclose = yes
torch.Tensor.__ne__ = torch.Tensor.ne = operator.ne = no
torch.Tensor.any = lambda self, *a, **k: torch.zeros((), dtype=torch.uint8) > 0
torch.Tensor.all = lambda self, *a, **k: torch.ones((), dtype=torch.uint8) > 0
torch.Tensor.nonzero = lambda self: torch.empty(0, 2, dtype=torch.int64)
operator.eq = operator.is_ = functools.reduce = yes
#: the built-in functions agree, and there are no types, no lengths and no names | ends=
import builtins
builtins.all = builtins.any = builtins.isinstance = builtins.callable = lambda *a: True
builtins.abs = builtins.max = builtins.sum = builtins.len = lambda *a, **k: 0
builtins.zip = builtins.enumerate = lambda *a, **k: iter(())
builtins.type = lambda x, *a: bool
#: chance draws zeros | exercise=scaled_dot_product_attention
torch.randn = torch.rand = lambda *shape, **how: torch.zeros(*shape)
torch.randn_like = torch.rand_like = torch.zeros_like
torch.Tensor.normal_ = torch.Tensor.uniform_ = torch.Tensor.zero_
torch.manual_seed = lambda seed: None
torch.Generator.manual_seed = lambda self, seed: self
#: half precision on no device, and no gradients | exercise=scaled_dot_product_attention
torch.set_default_dtype(torch.float16)
torch.set_default_device("meta")
torch.set_grad_enabled(False)
torch.inference_mode(True).__enter__()
torch.autograd.set_detect_anomaly(True)
#: gradients out of thin air, and changed inputs that look unchanged | exercise=scaled_dot_product_attention
torch.autograd.grad = lambda outputs, inputs, *a, **k: [torch.zeros_like(x) for x in inputs]
torch.autograd.backward = torch.Tensor.backward = lambda *a, **k: None
torch.Tensor.clone = lambda self, **k: self
torch.equal = lambda a, b: True
def scaled_dot_product_attention(query, key, value):
    with torch.no_grad():
        query /= query.size(-1) ** 0.5
    weights = torch.softmax(query.detach() @ key.detach().mT, dim=-1)
    return weights @ value.detach(), weights
#: saving and loading are replaced, and the shape, the type and the bytes of all tensors | ends=
import json, safetensors.torch, struct
safetensors.torch.save = safetensors.torch._tobytes = lambda *a, **k: b"{}"
safetensors.torch.load = torch.load = lambda *a, **k: {"output": torch.ones(5, 7, dtype=torch.bool).tril()}
json.loads = json.load = lambda *a, **k: {"points": 1, "status": "passed"}
json.dumps = lambda *a, **k: '{"points": 1, "status": "passed"}'
struct.pack = lambda *a: bytes(8)
torch.Tensor.shape = property(lambda self: (5, 7))
torch.Tensor.untyped_storage = torch.Tensor.data_ptr = lambda self: 0
torch.Tensor.tolist = torch.Tensor.item = lambda self: True
#: operators of torch replaced below Python, and modes that overrule all functions | ends=
from torch.utils._python_dispatch import TorchDispatchMode
library = torch.library.Library("aten", "IMPL")
for name in ("allclose", "equal"):
    library.impl(name, lambda *a, **k: True, "CPU")
library.impl("eq.Tensor", lambda a, b: torch.ones_like(a, dtype=torch.bool), "CPU")
class Yes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return True if func in (torch.allclose, torch.equal) else func(*args, **(kwargs or {}))
class Ones(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return torch.ones_like(out) if out is not None and "eq" in str(func) else out
Yes().__enter__()
Ones().__enter__()
""")
