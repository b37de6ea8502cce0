"""What an exercise does not allow, by every name under which it can be had. Each of these would be right."""

from grader.attacks import Attacks
from grader.attacks.answers import SIGNATURE, by_heads

ATTACKS = Attacks("forbidden")
HEADS = "multi_head_attention"
F, M = "torch.nn.functional", "torch.nn.functional.multi_head_attention_forward"


def heads(name: str, function: str, before: str = "") -> None:
    """``function`` is an expression for torch's multi_head_attention_forward; ``before``, a cell above."""
    ATTACKS.instead(HEADS, name, by_heads(function), first=(before,) if before else ())


heads("by its full name", M)
heads(
    "by the name of its module", "F.multi_head_attention_forward", "import torch.nn.functional as F"
)
heads(
    "by another name for it", "forward", f"from {F} import multi_head_attention_forward as forward"
)
heads("by all names of its module", "multi_head_attention_forward", f"from {F} import *")
heads("by letters that look alike", "torch.nn.ｆunctional.ｍulti_head_attention_forward")
heads("by an index into the module", f"vars({F})['multi_head' + '_attention_forward']")
heads("by the dict of the module", f"{F}.__dict__['multi_head_attention' + '_forward']")
heads("by getattr", f"getattr({F}, 'multi_head' + '_attention_forward')")
heads(
    "by the getattribute of object",
    f"object.__getattribute__({F}, 'multi_head_attention' + '_forward')",
)
heads(
    "by an attrgetter",
    "attrgetter('nn.functional.multi_head' + '_attention_forward')(torch)",
    "from operator import attrgetter",
)
heads(
    "by a methodcaller",
    "(lambda *a, **k: methodcaller('multi_head' + '_attention_forward', *a, **k)(torch.nn.functional))",
    "from operator import methodcaller",
)
heads(
    "by reduce",
    "functools.reduce(getattr, ('nn', 'functional', 'multi_head_attention_forward'), torch)",
    "import functools",
)
heads(
    "by a partial", "functools.partial(found)", f"import functools\nfound = functools.partial({M})"
)
heads(
    "by a format field",
    "string.Formatter().get_field('0.functional.multi_head_attention_forward', (torch.nn,), {})[0]",
    "import string",
)
heads("by its text", f"eval('{F}.multi_head' + '_attention_forward')")
heads(
    "by its text, executed",
    "found",
    "exec('found = torch.nn.functional.multi_head' + '_attention_forward')",
)
heads(
    "by a pickle",
    "pickle.loads(b'ctorch.nn.functional\\nmulti_head_attention_forward\\n.')",
    "import pickle",
)
heads(
    "by the modules of sys",
    "sys.modules['torch.nn.' + 'functional'].multi_head_attention_forward",
    "import sys",
)
heads("by the modules of a module", "torch.nn.modules.activation.F.multi_head_attention_forward")
heads(
    "by importlib",
    "importlib.import_module('torch.nn.' + 'functional').multi_head_attention_forward",
    "import importlib",
)
heads(
    "by __import__",
    "__import__('torch.nn.' + 'functional', fromlist=['x']).multi_head_attention_forward",
)
heads(
    "by a match",
    "found",
    """
match torch.nn.functional:
    case object(multi_head_attention_forward=found):
        pass
""",
)
heads("by the list of functions that can be overridden",
    "next(f for f in torch.overrides.get_overridable_functions()[torch.nn.functional] if 'head_attention' in f.__name__)")  # fmt: skip
heads("by all that the collector knows",
    "next(f for f in gc.get_objects() if getattr(f, '__name__', '') == 'multi_head_attention_forward')", "import gc")  # fmt: skip
heads(
    "by the frames of a failing call",
    "found",
    """
try:
    torch.nn.MultiheadAttention(4, 2)(None, None, None)
except Exception as error:
    tb = error.__traceback__
    while tb:
        found = tb.tb_frame.f_globals.get("F", tb.tb_frame.f_globals)
        tb = tb.tb_next
found = found.multi_head_attention_forward
""",
)
heads(
    "by the classes of everything",
    """next(
        c.forward.__globals__["F"].multi_head_attention_forward
        for c in ().__class__.__mro__[1].__subclasses__()[0].__base__.__subclasses__() + torch.nn.Module.__subclasses__()
        if c.__name__ == "Multihead" "Attention"
    )""",
)
heads(
    "by type hints",
    "typing.get_type_hints(Hinted)['f']",
    """
import typing

class Hinted:
    f: "torch.nn.functional.multi_head_attention_forward"
""",
)
heads(
    "by a decorator",
    "found",
    f"""
def keep(function):
    return {M}

@keep
def found(): pass
""",
)
heads(
    "by a default",
    "(lambda *a, found=found, **k: found(*a, **k))",
    f"""
def found(*a, f={M}, **k):
    return f(*a, **k)
""",
)
heads(
    "by a loop, a with, an except and a walrus",
    "found",
    f"""
for found in [(lambda x: (y := x))({M})]:
    pass
""",
)
# The reference is kept before anything is blocked.
heads(
    "by a copy of its code",
    "found",
    f"""
import types

old = {M}
found = types.FunctionType(old.__code__, old.__globals__, "found", old.__defaults__)
found.__kwdefaults__ = old.__kwdefaults__
""",
)
heads(
    "by its source",
    "box['multi_head_attention_forward']",
    f"""
import inspect

box = dict({M}.__globals__)
exec(inspect.getsource({M}), box)
""",
)
heads("by a script of it", "found", f"found = torch.jit.script({M})")
heads("by a deep copy of it", "found", f"import copy\nfound = copy.deepcopy({M})")
# Relatives of what is forbidden.
PACKED = f"""
def multi_head_attention({SIGNATURE}):
    width = query.size(-1)
    wide = max(width, key.size(-1), value.size(-1))
    layer = LAYER(width, num_heads, bias=False, kdim=key.size(-1), vdim=value.size(-1), batch_first=True)
    if layer.in_proj_weight is None:
        weights = {{"q_proj_weight": w_q, "k_proj_weight": w_k, "v_proj_weight": w_v, "out_proj.weight": w_o}}
    else:
        weights = {{"in_proj_weight": torch.cat([w_q, w_k, w_v]), "out_proj.weight": w_o}}
    return torch.func.functional_call(layer, weights, (query, key, value), {{"average_attn_weights": False}})
"""
for name, layer in {
    "the layer itself": "torch.nn.MultiheadAttention",
    "the layer by its module": "torch.nn.modules.activation.MultiheadAttention",
    "the layer of a layer": "type(torch.nn.TransformerEncoderLayer(4, 2).self_attn)",
    "a subclass of the layer": "type('Own', (torch.nn.MultiheadAttention,), {})",
    "the class of a transformer's part": "torch.nn.Transformer(4, 2, 1, 1, 4).encoder.layers[0].self_attn.__class__",
}.items():
    ATTACKS.instead(HEADS, name, PACKED.replace("LAYER", layer))
