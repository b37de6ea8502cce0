"""Copies of the repository, in which tools write what they like."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from support.book.notebooks import ROOT

WRITTEN = {".py", ".ipynb", ".md", ".yml", ".json", ".toml", ".cff"}
HIDDEN = shutil.ignore_patterns(".*", "_build", "build", "__pycache__", "*.egg-info", "figures")


def copied(folder: Path, original: Path = ROOT) -> Path:
    """A copy of the repository without what is built."""
    return shutil.copytree(original, folder / "house", ignore=HIDDEN)


def python(house, *command):
    """Run something with the copy in place of the repository."""
    environment = os.environ | {"PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1"}
    options = {"cwd": house, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *command], **options)


def contents(house) -> dict[str, str]:
    """The text of all files that a tool may write."""
    found = [path for path in house.rglob("*") if path.suffix in WRITTEN]
    return {path.relative_to(house).as_posix(): path.read_text("utf-8") for path in found}


def refused(house, *command) -> str:
    """What is said by a command that fails; it must write nothing, and be told without a traceback."""
    before = contents(house)
    done = python(house, *command)
    assert done.returncode in (1, 2), done.stdout
    assert "Traceback" not in done.stderr
    assert contents(house) == before
    return done.stderr
