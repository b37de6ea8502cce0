"""Every case, claim and wrong version: the files that hold them are imported here, each of them."""

from importlib import import_module
from inspect import isfunction, signature
from pathlib import Path

from support import cases, claims
from support.cases import VARIANTS
from support.mutants import MUTANTS

__all__ = ["CLAIMS", "MUTANTS", "VARIANTS"]
CLAIMS = []


def files(package) -> list:
    paths = sorted(Path(package.__file__).parent.glob("[!_]*.py"))
    return [import_module(f"{package.__name__}.{path.stem}") for path in paths]


files(cases)
for module in files(claims):
    own = [x for x in vars(module).values() if isfunction(x) and x.__module__ == module.__name__]
    CLAIMS += [x for x in own if x.__name__[0] != "_" and [*signature(x).parameters] == ["p"]]
