"""Set-up of all tests: one thread, no lucky memory, shapes checked while the package runs."""

import gc
import json
import os
import shutil
import sys
from pathlib import Path

# Before anything imports Triton: its kernels then run on the CPU, in an interpreter.
os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch
from jaxtyping import install_import_hook
from support.proofs import Proofs
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
# Files whose tests share nothing but what is kept for their parameters.
APART = {"test_grading.py", "test_mutants.py", "test_flash_kernels.py"}
LONGEST = ("test_attacks.py", "test_site_browser.py", "test_batch.py", "test_grading_cli.py")
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHECKED = ("steps", "masks", "scores", "layers", "lab.models", "lab.data")

# Imported here first, so that every test sees the functions whose shapes are checked at each call.
with install_import_hook([f"attncourse.{module}" for module in CHECKED], "beartype.beartype"):
    import attncourse  # noqa: F401

torch.set_num_threads(1)
# torch then also fills fresh memory with NaN: who reads what nobody wrote is found out.
torch.use_deterministic_algorithms(True)


def pytest_runtest_logreport(report):
    """Tell of a failure at once: who ends a long run early wants to know."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid}\n{report.longreprtext[-2000:]}", file=sys.__stderr__)


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def pytest_addoption(parser):
    parser.addoption(
        "--write-tables", action="store_true", help="write the tables of the book that have changed"
    )
    parser.addoption(
        "--prove-all", action="store_true", help="run also what is unchanged since it passed"
    )


def pytest_configure(config):
    on_ci = os.environ.get("CI") == "true"  # there everything is proven, and nothing is kept
    everything = config.getoption("--prove-all") or config.getoption("--write-tables")
    config.pluginmanager.register(Proofs(look=not on_ci and not everything, keep=not on_ci))


def pytest_collection_modifyitems(items):
    """What takes longest begins first, and what need not stay together fills the gaps at the end."""
    items.sort(key=lambda item: (item.path.name in APART, rank(item.path)))


def pytest_collection_finish():
    """What is there before the first test, torch above all, stays: no collection need look at it again."""
    gc.freeze()


def rank(path: Path) -> int:
    """Where the tests of a file stand in the queue."""
    if path.name in LONGEST:
        return LONGEST.index(path.name)
    return len(LONGEST) + (path.suffix != ".ipynb")


class Groups(LoadScopeScheduling):
    """A worker of pytest-xdist gets a whole file, because fixtures are dear and cells follow from each
    other; of the files `APART` only the tests with the same parameters.
    """

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.rpartition("::") if "::ipynb::" in nodeid else nodeid.partition("::")
        return file + test[test.find("[") :] if Path(file).name in APART and "[" in test else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Groups(config, log)


@pytest.fixture(scope="session")
def book_table(request):
    """``book_table(name, caption=, note=, columns=, rows=)``: what the book shows is what was found."""

    def compare(name: str, **table) -> None:
        path = ROOT / "chapters" / "_data" / f"{name}.json"
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        if request.config.getoption("--write-tables"):
            path.write_text(text, encoding="utf-8")
        shown = path.read_text(encoding="utf-8") if path.exists() else ""
        assert shown == text, f"{path.relative_to(ROOT)} is out of date; run: make tables"

    return compare


@pytest.fixture(scope="module")  # not longer: while Playwright runs, nobody else has an event loop
def browser():
    """A Chromium that reaches this machine alone."""
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing = "no Chromium found: install it (Debian: apt-get install chromium) or set CHROMIUM"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    from playwright.sync_api import sync_playwright

    # Names outside this machine do not resolve, so a page that needs one fails here as it would offline.
    arguments = ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        chromium.close()
