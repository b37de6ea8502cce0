"""Private copies of the package, as it is or with one line of it replaced."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

SOURCE = Path(__file__).parents[1] / "attncourse"
MODULES = ("steps", "masks", "scores", "cost", "heads")  # in the order of their imports


def build(module: str = "", old: str = "", new: str = "") -> SimpleNamespace:
    """The modules run afresh from their source, ``old`` replaced by ``new`` in one of them.

    No run-time check of shapes is attached to this copy, so it shows the errors that users see.
    """
    built = {}
    for name in MODULES:
        source = (SOURCE / f"{name}.py").read_text(encoding="utf-8")
        if name == module:
            assert source.count(old) == 1, f"{name}.py holds {source.count(old)} times: {old}"
            source = source.replace(old, new)
        copy = ModuleType(f"attncourse.{name}")
        with mock.patch.dict(sys.modules, {f"attncourse.{k}": v for k, v in built.items()}):
            exec(compile(source, SOURCE / f"{name}.py", "exec"), copy.__dict__)
        built[name] = copy
    return SimpleNamespace(**built)
