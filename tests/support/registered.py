"""Every case, claim and wrong version: the files that register them are imported here, each of them."""

from importlib import import_module
from pathlib import Path

from support.cases import VARIANTS
from support.claims import CLAIMS
from support.mutants import MUTANTS

__all__ = ["CLAIMS", "MUTANTS", "VARIANTS"]

for folder in ("cases", "claims"):
    for path in sorted((Path(__file__).parent / folder).glob("[!_]*.py")):
        import_module(f"support.{folder}.{path.stem}")
