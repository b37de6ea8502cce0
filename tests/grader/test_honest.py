"""Honest habits cost no point: what people write around their answers, and how they write numbers."""

import json
import os

from grader.attacks import Attack, as_found, right
from nbformat.v4 import new_code_cell, new_markdown_cell
from support.grader.hostile import Service, Yard, order_of
from support.grader.sandbox import run_as, walls_stand

TOGETHER = 14  # cells of `BESIDE` in one notebook: each notebook costs a second
HEADS, GROUPED, NUMBER = "multi_head_attention", "repair_no_softmax", "crossover"

# Each stands in a cell of its own, above the answers or below them.
BESIDE = (
    "try:\n    from google.colab import drive\nexcept ImportError:\n    pass",
    "from google.colab import drive\ndrive.mount('/content/drive')",
    "import sys\nIN_COLAB = 'google.colab' in sys.modules",
    "import pathlib\nprint(pathlib.Path.cwd())",
    "import os\nos.makedirs('plots', exist_ok=True)\nprint(os.path.exists('plots'))",
    "with open('notes.txt', 'w') as file:\n    file.write('my notes')",
    "import sys\nsys.path.append('..')",
    "weights = torch.load('weights.pt') if False else None",
    "import pickle\npickle.dumps([1, 2])",
    "import threading\nlock = threading.Lock()",
    "import requests",
    "import resource\nresource.getrusage(resource.RUSAGE_SELF)",
    "import asyncio\nasync def f():\n    return 1\nawait f()",
    "import unittest\nclass T(unittest.TestCase):\n    pass",
    "import torchviz",
    "print(len(globals()), len(vars(torch)), torch.nn.Linear(2, 2).__dict__.keys())",
    "act = getattr(torch, 'relu')",
    "import timeit\ntimeit.timeit('1 + 1', number=10)",
    "torch.ops.aten.softmax.int(torch.randn(3), 0)",
    "exec('y = 1')\neval('y + 1')",
    "from torch.nn.functional import *",
    "%matplotlib inline\n%load_ext autoreload\n%autoreload 2",
    "%time x = torch.randn(3)\n%timeit -n 1 x.sum()\nassert x.shape == (3,)",
    "%%time\nz = torch.randn(3)\nprint(z)",
    "%%capture out\nprint('x')",
    "!pip install -q einops\n!ls\n%pip install einops\n%cd /tmp",
    "files = !ls\nprint(files)",
    "%env\n%pwd\n%who\n?print\nprint?",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('x.png')\nplt.show()",
    "import numpy as np\nnp.random.seed(0)\nnp.testing.assert_allclose(1.0, 1.0)",
    "from dataclasses import dataclass\n@dataclass\nclass Config:\n    heads: int = 4\nprint(Config())",
    "import torch.nn.functional as F\nq = torch.randn(1, 2, 3, 4)\nprint(F.scaled_dot_product_attention(q, q, q).shape)",
    "layer = torch.nn.MultiheadAttention(8, 2)\nlayer.register_forward_hook(lambda *a: None)",
    "# F.multi_head_attention_forward is what torch calls\ntext = 'scaled_dot_product_attention'",
    "torch.manual_seed(7)\ntorch.set_default_dtype(torch.float32)\ntorch.set_num_threads(2)",
    "import warnings, logging\nwarnings.filterwarnings('ignore')\nlogging.basicConfig(level=logging.INFO)",
    "from IPython.display import display, HTML, Markdown\ndisplay(HTML('<b>x</b>'))\ndisplay(Markdown('x'))",
    "name = input('your name? ')",
    "1 / 0",
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'\ntorch.zeros(2).to(device)",
    "import gc, time, random, itertools, functools, collections, re, copy\nrandom.seed(0); time.sleep(0.01)",
    "torch.set_printoptions(precision=8)\ntorch.set_grad_enabled(True)",
)
# Above the ``def``, in the same cell; two in a notebook, because it has two answers.
ABOVE = (
    "display('my answer')",
    "get_ipython().run_line_magic('matplotlib', 'inline')",
    "if get_ipython() is not None:\n    print('in a notebook')",
    "%matplotlib inline",
    "!nvidia-smi",
    "import torch.nn.functional as F  # unused",
    "from torch import *",
    "@torch.no_grad()\ndef plot(x): return x",
    "import functools\ntrace = functools.wraps",
    "%%time",
)
NUMBERS = (
    "81", "81.0", "'81'.__len__() + 79", "float('81')", "round(81.4)", "int('81')", "80 + 1", "max(range(82))",
    "torch.tensor(81)", "torch.tensor(81.0)", "torch.tensor([81])", "torch.tensor(81).item()", "torch.tensor(81).numpy()",
    "__import__('numpy').array(81)", "__import__('numpy').array([81])", "__import__('numpy').int64(81)",
    "__import__('numpy').float32(81)", "[81]", "(81,)", "__import__('fractions').Fraction(81)",
)  # fmt: skip


def change(**what):
    """What a tool does to a file on its way: its metadata, its line ends, its encoding."""

    def edit(nb):
        for cell in nb["cells"]:
            cell["metadata"] = what.get("cell", {})
            cell["source"] = cell["source"].replace("\n", what.get("ends", "\n"))
        nb["metadata"] |= what.get("notebook", {})
        nb["cells"] += [new_code_cell(""), new_markdown_cell("My notes.")]
        text = json.dumps(nb, ensure_ascii=False, indent=1)
        return what.get("mark", b"") + text.encode(what.get("encoding", "utf-8"))

    return edit


FILES = {
    "Colab": change(cell={"colab": {"base_uri": "x"}, "id": "a1", "executionInfo": {}}, notebook={"colab": {"provenance": []}}),
    "VS Code": change(cell={"vscode": {"languageId": "python"}}, notebook={"kernelspec": {"name": ".venv"}}),
    "CRLF": change(ends="\r\n"),
    "a byte order mark": change(mark=b"\xef\xbb\xbf"),
    "UTF-16": change(encoding="utf-16"),
}  # fmt: skip


def batched(texts: tuple[str, ...], size: int) -> list[tuple[str, ...]]:
    """Each in one group; every group takes as many."""
    return [texts[k : k + size] for k in range(0, len(texts), size)]


def notebooks() -> list[Attack]:
    """Honest ones; each ends with the checks of what it answers."""
    both = right(HEADS), right(GROUPED)
    checks = f'check("{HEADS}", multi_head_attention)\ncheck("{GROUPED}", grouped_attention)'
    start = (*as_found(HEADS), *as_found(GROUPED)[1:])
    made = {f"beside: {x}": ((*start, *x, *both), checks) for x in batched(BESIDE, TOGETHER)}
    for texts in batched(ABOVE, len(both)):
        made[f"above: {texts}"] = (*start, *map("{}\n\n{}".format, texts, both)), checks
    made["answers before their imports"] = (*both, *start), checks
    made["answers and checks in one cell"] = (*start, "\n\n".join(both) + checks), "1"
    made["no checks at all"] = (*start, *both), "1"
    found = [Attack(k, "", HEADS, cells, "passed", 5, check=x) for k, (cells, x) in made.items()]
    mask = (*as_found("causal_mask"), right("causal_mask"))
    found += [Attack(k, "", "causal_mask", mask, "passed", 1, edit=x) for k, x in FILES.items()]
    for text in NUMBERS:
        cells = (*as_found(NUMBER), f"largest_n = {text}\n")
        found.append(Attack(f"the number {text}", "", NUMBER, cells, "passed", 2))
    return found


def test_honest_habits_cost_nothing():
    made = notebooks()
    assert len(made) >= 35
    assert len(BESIDE) >= 40
    with Service(run_as(), Yard(os.getuid())) as service:
        result, *_ = service.grade(order_of("anna", made, service.yard))
    walls_stand(dict(result.protections)[next(iter(dict(result.protections)))])
    lost = [
        f"{attack.name}: {[v for v in graded.verdicts if v.status != 'not found']} {graded.problems}"
        for attack, graded in zip(made, result.files, strict=True)
        if sum(v.points for v in graded.verdicts) != attack.earns
    ]
    assert not lost, "\n".join(lost)
