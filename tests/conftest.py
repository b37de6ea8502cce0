"""Set-up of all tests: one thread, no lucky memory, shapes checked while the package runs."""

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

ROOT = Path(__file__).parents[1]
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


@pytest.fixture(scope="session")
def write_table():
    """``write(name, caption=, note=, columns=, rows=)``: a table that the book shows."""

    def write(name: str, **table) -> None:
        path = ROOT / "chapters" / "_data" / f"{name}.json"
        text = json.dumps(table, indent=1, ensure_ascii=False) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return write


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
