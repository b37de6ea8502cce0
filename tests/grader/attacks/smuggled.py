"""What an exercise does not allow, carried past the reader of the source: what is read is not what runs."""

from grader.attacks import RIGHT, Attacks
from grader.attacks.answers import by_heads

ATTACKS = Attacks("smuggled")
HEADS = "multi_head_attention"
M = "torch.nn.functional.multi_head_attention_forward"
# A script calls no Python function, so that nothing can be put in its place later.
SCRIPT = f"torch.jit.script({M})"


def smuggled(name: str, function: str, before: str) -> None:
    """``function`` is what ``before``, a cell above, has made of torch's function."""
    ATTACKS.instead(HEADS, name, by_heads(function), first=(before,))


smuggled("by a setting of torch", "torch.backends.mine", f"torch.backends.mine = {SCRIPT}")
smuggled(
    "by a logger",
    "logging.getLogger('x').mine",
    f"import logging\nlogging.getLogger('x').mine = {SCRIPT}",
)
smuggled("by a list that is filled on the side", "x[0]", f"x = []\n_ = x.append({SCRIPT})")
smuggled(
    "by a list that is filled in a list", "x[0]", f"x = []\n[x.append(y) for y in ({SCRIPT},)]"
)
smuggled("by a list that is filled in a test", "x[0]", f"x = []\nassert not x.append({SCRIPT})")
smuggled("by a list under another name", "x[0]", f"x = []\ny = x\ny.append({SCRIPT})")
smuggled("by a list in a list", "x[0][0]", f"x = [[]]\nfor y in x:\n    y.append({SCRIPT})")
smuggled(
    "by a class",
    "list.append",
    f"x = []\nlist.append(x, {SCRIPT})\nlist = type('', (), {{'append': x[0]}})",
)
smuggled(
    "by an operator that writes",
    "kept['f']",
    f"import operator\n\nkept = dict()\noperator.setitem(kept, 'f', {SCRIPT})",
)
smuggled(
    "by a function that writes into an object",
    "box.found",
    f"""
class Box:
    pass

box = Box()

def put(where):
    where.found = {SCRIPT}

put(box)
""",
)
smuggled(
    "by an argument that is changed",
    "x['f']",
    f"""
def keep(f, table):
    table["f"] = f
    return 1

x = {{}}
one = keep({SCRIPT}, x)
""",
)
smuggled(
    "by a registry of torch",
    "(lambda *a, **k: torch.distributions.kl_divergence(Carrier(a, k), Carrier((), {})))",
    f"""
class Carrier(torch.distributions.Distribution):
    def __init__(self, a, k):
        self.a, self.k = a, k

found = {SCRIPT}

@torch.distributions.register_kl(Carrier, Carrier)
def ask(p, q):
    return found(*p.a, **p.k)
""",
)
smuggled(
    "by a hook of all layers",
    "(lambda *a, **k: Identity()(a, k))",
    f"""
found = {SCRIPT}

class Identity(torch.nn.Module):
    def forward(self, a, k):
        return 0

def hook(module, args, output):
    return found(*args[0], **args[1])

torch.nn.modules.module.register_module_forward_hook(hook)
""",
)
smuggled("by a function of torch that is replaced", "torch.softmax", f"torch.softmax = {SCRIPT}")
smuggled(
    "by a method of all tensors",
    "(lambda q, *a, **k: q.attend(*a, **k))",
    f"torch.Tensor.attend = {SCRIPT}",
)
smuggled(
    "by a layer of torch",
    "torch.nn.Linear.attend",
    f"torch.nn.Linear.attend = staticmethod({SCRIPT})",
)
smuggled("by the built-in names", "found", f"import builtins\nbuiltins.found = {SCRIPT}")
smuggled("by the names of the notebook", "found", f"globals()['found'] = {SCRIPT}")
smuggled(
    "by a name that is bound in a function",
    "found",
    f"def late():\n    global found\n    found = {SCRIPT}\nlate()",
)
smuggled(
    "by the grader's own module",
    "found",
    f"import attncourse.grading\n\nattncourse.grading.found = {SCRIPT}\nfound = attncourse.grading.found",
)
smuggled("by its trace", "found", f"""
def call({", ".join("qkvabcd")}):
    return {M}(
        q, k, v, 6, 2, None, None, None, None, False, 0.0, d, None, use_separate_proj_weight=True,
        q_proj_weight=a, k_proj_weight=b, v_proj_weight=c, average_attn_weights=False,
    )

traced = torch.jit.trace(call, (*torch.randn(3, 3, 1, 6), *torch.randn(4, 6, 6)), check_trace=False)
torch.backends.mine = traced

def found(q, k, v, *_, use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, average_attn_weights):
    return torch.backends.mine(q, k, v, q_proj_weight, k_proj_weight, v_proj_weight, _[8])
""")  # fmt: skip
smuggled(
    "by a compiled copy",
    "torch.backends.mine",
    f"torch.backends.mine = torch.compile({M}, backend='eager')",
)
smuggled("by a graph", "torch.backends.mine", f"torch.backends.mine = torch.fx.symbolic_trace({M})")
# The reader is fed what it cannot read.
for depth in (2_700, 2_800, 2_900):
    smuggled(f"below a sum of {depth} ones", "found", f"found = {SCRIPT}\ndeep = 1" + "+1" * depth)
    smuggled(f"beside a sum of {depth} ones", f"(1{'+1' * depth}, {M})[1]", "1")
# What is read is not what is checked.
DECOY = RIGHT[HEADS].replace("weights = torch.softmax", "weights = torch.sigmoid")
OTHER = f"scripted = {SCRIPT}\n{by_heads('scripted', 'other')}{DECOY}"
CHECK = f'check("{HEADS}", multi_head_attention)'
for trick, check in {
    "check gets another function": f'check("{HEADS}", other)',
    "check gets a tuple that is unpacked": f'check(*("{HEADS}", other))',
    "check has another name": f'look = check\nlook("{HEADS}", other)\nif not look:\n    {CHECK}',
    "check gets an expression": f'check("{HEADS}", [multi_head_attention, other][1])',
    "check is called by a function": f'def late():\n    check("{HEADS}", other)\n\nlate()',
    "check is called twice": f'{CHECK}\ncheck("03." "multi_head_attention", other)',
    "the name is bound again below": f"{CHECK}\nfor multi_head_attention in [other]:\n    pass",
    "the answer is put where check keeps it": f'{CHECK}\nimport attncourse.grading as g\ng._answers["{HEADS}"] = other',
    "the function gets the code of another": f"multi_head_attention.__code__ = other.__code__\n{CHECK}",
    "check is another function": f"import attncourse.grading as g\nkept = g.check\ng.check = lambda name, x: kept(name, other)\ng.{CHECK}",
}.items():
    ATTACKS.instead(HEADS, trick, OTHER, check=check)
