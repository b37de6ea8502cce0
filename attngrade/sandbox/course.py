"""The few files of the course that a worker sees, one by one; none holds an answer."""

from importlib.util import cache_from_source, find_spec
from pathlib import Path

HERE = Path(__file__).parent
GRADING = (
    Path(find_spec("attncourse").origin).parent / "grading"
)  # found, not imported: torch is slow
PLACE = "/course"
EMPTY = HERE / "__init__.py"  # a docstring and no code
FILES = {
    "attncourse/__init__.py": EMPTY,
    "attncourse/grading/__init__.py": HERE / "stub.py",
    "attngrade/__init__.py": EMPTY,
    "attngrade/sandbox/__init__.py": EMPTY,
}
for _name in ("allocations", "answer", "isolation"):
    FILES[f"attncourse/grading/{_name}.py"] = GRADING / f"{_name}.py"
_SIDE = "calls confine notebook_shell peer seccomp takes values wire worker"
for _name in _SIDE.split():
    FILES[f"attngrade/sandbox/{_name}.py"] = HERE / f"{_name}.py"


def binds() -> list[str]:
    """The options of bubblewrap that show these files and their bytecode at `PLACE`."""
    options = []
    for name, source in FILES.items():
        real, shown = str(source), f"{PLACE}/{name}"
        options += ["--ro-bind", real, shown]
        options += ["--ro-bind-try", cache_from_source(real), cache_from_source(shown)]
    return options


def roots() -> list[str]:
    """The folders of the packages, for a worker without a sandbox."""
    return [str(HERE.parents[1]), str(GRADING.parents[1])]
