"""What has passed is not run again until something that it depends on changes.

Every test has a digest of its own file, of the `helpers` that it imports, and of all that its folder depends
on (`DEPENDS`); a notebook has one of itself and of the package. Digests of what has passed are kept in a local
folder that git ignores, so a clean clone proves everything, and so does CI. ``--prove-all`` runs everything.
"""

import ast
import hashlib
import os
import platform
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".proofs"
ALWAYS = ("requirements.txt", "pyproject.toml", "tests/conftest.py", "tests/support/proofs.py")
NO_SOURCES = {"__pycache__", "_build", "build", "dist"}
# What the tests of a folder depend on besides their own files. The mechanism imports no judge.
MECHANISM = tuple(
    f"attncourse/{path.name}"
    for path in (ROOT / "attncourse").iterdir()
    if path.name not in {"grading", *NO_SOURCES}
)
DEPENDS = {
    "tests/mechanism": (*MECHANISM, "benchmarks", "tests/support/flash"),  # started by their paths
    "tests/peers": (*MECHANISM, "benchmarks", "tests/peers"),
    "tests/exercises": ("attncourse", "exercises", "tools"),
    "tests/grader": ("attncourse", "attngrade", "exercises", "benchmarks", "chapters/teachers.md"),
    "tests/book": (".",),
    "chapters": (*MECHANISM, "benchmarks/results"),
    "exercises/solutions": ("attncourse",),
}


@cache
def digest_of(path: Path) -> bytes:
    """Of a file, or of all files of a folder and their names; hidden folders are left out.

    What is not there, such as a site that was not built, has one as well: its test says that it is missing.
    """
    if not path.exists():
        return b"absent"
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).digest()
    found = hashlib.sha256()
    for inner in sorted(path.iterdir()):
        hidden = inner.name.startswith(".") and inner.name not in (".ci", ".github")
        if not hidden and inner.name not in NO_SOURCES and not inner.name.endswith(".egg-info"):
            found.update(inner.name.encode() + digest_of(inner))
    return found.digest()


def digest(*parts: Path | str) -> str:
    """Of files, folders and texts, and of the Python that runs."""
    found = hashlib.sha256(f"{sys.version} {platform.machine()} {os.name}".encode())
    for part in parts:
        found.update(digest_of(part) if isinstance(part, Path) else part.encode() + b"\0")
    return found.hexdigest()


def depends_on(item: pytest.Item) -> list[Path]:
    """All that decides whether a test passes; a module may list it in ``depends(item)``, ``tests/support`` apart."""
    shared = helpers(item.path)
    own = getattr(getattr(item, "module", None), "depends", None)
    if own:
        support = [x for x in shared if ROOT / "tests/support" in x.parents]
        return [item.path, *support, *own(item)]
    folder = next(x for x in DEPENDS if (ROOT / x) in item.path.parents)
    return [item.path, *shared, *(ROOT / x for x in sorted(DEPENDS[folder]))]


@cache
def helpers(path: Path) -> list[Path]:
    """The folders and files below ``tests`` that a test file imports, and those that they import."""
    found: set[Path] = set()
    left = [path] if path.suffix == ".py" else []
    while left:
        for helper in set(imported(left.pop())) - found:
            found.add(helper)
            left += helper.rglob("*.py") if helper.is_dir() else [helper]
    return sorted(found)


def imported(file: Path) -> Iterator[Path]:
    """The helpers in the imports of a file: ``tests/support/cases`` for `support.cases.layers`.

    A test may also import what lies beside it: ``tests/exercises/unseen`` for `unseen.masks`.
    """
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                first, *rest = f"{module}{alias.name}".split(".")
                folder = ROOT / "tests" / first
                place = folder.joinpath(*rest[:1]) if folder.is_dir() else file.parent / first
                yield from (x for x in (place, place.with_suffix(".py")) if x.exists())


def unit(item: pytest.Item) -> str:
    """What passes as one: a notebook, because its cells follow from each other; or a test."""
    return str(item.path.relative_to(ROOT)) if item.path.suffix == ".ipynb" else item.nodeid


class Proofs:
    """The plugin: leaves out what is proven, and keeps what is proven now."""

    def __init__(self, look: bool, keep: bool):
        self.look, self.keep, self.left_out = look, keep, 0
        self.passed: dict[str, int] = defaultdict(int)
        self.parts: dict[str, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config, items):
        sizes, chosen, proven = Counter(map(unit, items)), [], []
        always = [ROOT / x for x in ALWAYS]
        for item in items:
            proof = digest(unit(item), *depends_on(item), *always)
            if self.look and (KEPT / proof).exists():
                proven.append(item)
            else:
                item.user_properties += [("proof", proof), ("parts", sizes[unit(item)])]
                chosen.append(item)
        items[:] = chosen
        self.left_out = len(proven)
        config.hook.pytest_deselected(items=proven)

    def pytest_runtest_logreport(self, report):
        told = dict(report.user_properties)
        if "proof" not in told or (report.when != "call" and report.passed):
            return
        # A notebook may hold cells for a GPU, which are skipped; a skipped test has proven nothing.
        skipped = report.skipped and "::ipynb::" in report.nodeid
        good = report.passed or skipped or hasattr(report, "wasxfail")
        self.parts[told["proof"]] = told["parts"]
        self.passed[told["proof"]] += 1 if good else -(10**9)

    def pytest_sessionfinish(self, session, exitstatus):
        if hasattr(session.config, "workerinput"):
            session.config.workeroutput["left_out"] = self.left_out
            return
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.left_out:
            session.exitstatus = pytest.ExitCode.OK
        if self.keep:
            KEPT.mkdir(exist_ok=True)
            for proof, parts in self.parts.items():
                if self.passed[proof] == parts:
                    (KEPT / proof).touch()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        """A worker of pytest-xdist has ended; all workers leave out the same tests."""
        self.left_out = getattr(node, "workeroutput", {}).get("left_out", self.left_out)

    def pytest_terminal_summary(self, terminalreporter):
        if self.left_out:
            terminalreporter.write_line(
                f"{self.left_out} tests left out: unchanged since they passed (all: --prove-all)"
            )
