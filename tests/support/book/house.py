"""Copies of the repository, in which tools write what they like."""

import os
import shutil
import subprocess
import sys

HIDDEN = shutil.ignore_patterns(".*", "_build", "build", "__pycache__", "*.egg-info", "figures")


def python(house, *command):
    """Run something with the copy in place of the repository."""
    environment = os.environ | {"PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1"}
    options = {"cwd": house, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *command], **options)


def contents(house) -> dict[str, str]:
    found = [path for path in house.rglob("*") if path.suffix in (".py", ".ipynb", ".md", ".yml")]
    return {path.relative_to(house).as_posix(): path.read_text("utf-8") for path in found}
