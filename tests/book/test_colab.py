"""Colab, simulated: an empty folder, one notebook, an environment without the package.

All notebooks share their first cell, so one of them shows what it does; the chapters are run elsewhere.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest
from support.book.house import copied
from support.book.notebooks import STUDENTS

import attncourse

# jaxtyping is taken out as well: Colab has it not, so installing the package must bring it.
TAKEN_OUT = {"attncourse", "jaxtyping", "wadler_lindig"}
STAY_AS_THEY_ARE = ("torch", "numpy", "matplotlib")
RUN = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=400, kernel_name="python3").execute()
"""
WHERE = "import attncourse, jaxtyping; print(attncourse.__file__, jaxtyping.__file__)"


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A virtual environment: links to all that is installed here, less what Colab lacks."""
    folder = tmp_path_factory.mktemp("colab") / "env"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    site = Path(output(python, "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for source in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for entry in Path(source).iterdir():
            missing = any(x in entry.name.lower() for x in TAKEN_OUT)
            if not missing and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    return python


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """As a clone would bring it: nothing is built in ROOT."""
    return copied(tmp_path_factory.mktemp("source"))


def environment(**more) -> dict[str, str]:
    """No way back to this checkout, and no user's settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JUPYTER", "COV"))}
    return kept | {"PYTHONNOUSERSITE": "1", "OMP_NUM_THREADS": "1"} | more


def output(python, code) -> str:
    command = [python, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def versions(python) -> dict[str, str]:
    code = "import importlib.metadata as m; print(*[f'{x.name} {x.version}' for x in m.distributions()], sep='\\n')"
    return dict(line.split(" ") for line in output(python, code).splitlines())


def test_simulation_lacks_the_package(python):
    with pytest.raises(AssertionError, match="No module named 'attncourse'"):
        output(python, WHERE)
    installed = {x.name for x in distributions()}
    assert set(STAY_AS_THEY_ARE) <= set(versions(python)) <= installed | {"pip", "setuptools"}


def test_a_notebook_runs_in_an_empty_folder(python, source, tmp_path):
    before, notebook = versions(python), STUDENTS[0]
    assert "attncourse" not in before
    shutil.copy(notebook, tmp_path)
    command = [python, "-c", RUN, notebook.name]
    variables = environment(ATTNCOURSE_SOURCE=str(source))
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [path.name for path in tmp_path.iterdir()] == [notebook.name], "no side files"
    after = versions(python)
    assert set(after) - set(before) == {"attncourse", "jaxtyping", "wadler_lindig"}
    assert {name: after[name] for name in before} == before, "nothing else was changed"
    assert after["attncourse"] == attncourse.__version__
    for path in output(python, WHERE).split():
        assert Path(path).is_relative_to(python.parents[1]), "installed, not borrowed from here"
