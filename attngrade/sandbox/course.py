"""The few files of the course that a worker needs; no answer is in them, and they are bound one by one."""

from importlib.util import cache_from_source, find_spec
from pathlib import Path

HERE = Path(__file__).parent
GRADING = (
    Path(find_spec("attncourse").origin).parent / "grading"
)  # found, not imported: torch is slow
PLACE = "/course"
EMPTY = HERE / "__init__.py"  # nothing but a sentence
FILES = {
    "attncourse/__init__.py": EMPTY,
    "attncourse/grading/__init__.py": HERE / "stub.py",
    **{
        f"attncourse/grading/{x}.py": GRADING / f"{x}.py"
        for x in ("allocations", "answer", "isolation")
    },
    "attngrade/__init__.py": EMPTY,
    "attngrade/sandbox/__init__.py": EMPTY,
    **{
        f"attngrade/sandbox/{x}.py": HERE / f"{x}.py"
        for x in (
            "calls",
            "confine",
            "notebook_shell",
            "peer",
            "seccomp",
            "values",
            "wire",
            "worker",
        )
    },
}


def binds() -> list[str]:
    """The options of bubblewrap that show these files, and what is compiled of them, at `PLACE`."""
    options = []
    for name, source in FILES.items():
        shown = Path(PLACE, name)
        pairs = [(str(source), str(shown))]
        compiled = cache_from_source(str(source))
        pairs.append((compiled, cache_from_source(str(shown))))
        for real, place in pairs:
            if Path(real).exists():
                options += ["--ro-bind", real, place]
    return options


def roots() -> list[str]:
    """Where the packages themselves lie, for a worker that runs without a sandbox."""
    return [str(HERE.parents[1]), str(GRADING.parents[1])]
