"""The course's own code, imported in every way."""

from grader.attacks import Attacks

ATTACKS = Attacks("course", needs="bubblewrap")
MASK = "causal_mask"

COURSE = {
    "by its name": "from attncourse.masks import causal as found",
    "by the name of the package": "import attncourse\nfound = attncourse.causal",
    "by another name of the package": "import attncourse.masks as found",
    "from the definition": "from attncourse.spec import causal as found",
    "from the judge": "from attncourse.grading.exercises.masks.causal_mask import lower_triangle as found",
    "by importlib": "import importlib\nfound = importlib.import_module('attn' + 'course.masks').causal",
    "by __import__": "found = __import__('attn' + 'course').causal",
    "by text": "exec('from attn' + 'course.masks import causal as found')",
    "by runpy": "import runpy\nfound = runpy.run_module('attn' + 'course.masks')['causal']",
    "by pkgutil": "import pkgutil\nfound = pkgutil.resolve_name('attn' + 'course.masks:causal')",
    "from the path of the course": "import sys\nsys.path[:0] = ['@COURSE@', '.', '..', '../..']\nsys.modules.pop('attncourse')\nfrom attncourse.masks import causal as found",
    "from a file": "import runpy\nfound = runpy.run_path('@COURSE@/attncourse/masks.py')['causal']",
    "from another place": "import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--target', '/tmp/x', '@COURSE@'], timeout=2)\nsys.path.insert(0, '/tmp/x')\nfrom attncourse.masks import causal as found",
    "by a pickle": "import pickle\nfound = pickle.loads(b'cattncourse.masks\\ncausal\\n.')",
    "by the tools of the course": "from attncourse.grading import load\nfound = load('causal_mask').judge.spec",
}
for name, source in COURSE.items():
    lines = "\n".join(f"    {line}" for line in source.splitlines())
    ATTACKS.instead(
        MASK,
        f"the course's own code {name}",
        f"""
try:
{lines}
except Exception:
    def found(n, m):
        return torch.ones(n, m, dtype=torch.bool)

def causal_mask(n, m):
    for name in ("causal", "masks"):
        inner = getattr(found, name, None)
        if inner is not None:
            return getattr(inner, "causal", inner)(n, m)
    return found(n, m)
""",
    )
