"""`tools/bootstrap.py`: every notebook installs the version that it was written for, from one address."""

import difflib
import re
import shutil
from importlib import import_module

import nbformat
import pytest
import yaml
from support.book.form import tags
from support.book.house import contents, python, refused
from support.book.notebooks import ALL, ROOT, cells, each

pytestmark = pytest.mark.quick

ELSEWHERE = "https://github.com/you/fork"


@pytest.fixture
def bootstrap(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    return import_module("bootstrap")


@pytest.fixture
def house(tmp_path):
    """A copy of what the tool reads and writes."""
    others = ("_config.yml", "pyproject.toml", "README.md", "CITATION.cff")
    for path in [*ALL, *(ROOT / x for x in others)]:
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    (tmp_path / "attncourse").mkdir()
    shutil.copy(ROOT / "attncourse" / "__init__.py", tmp_path / "attncourse")
    return tmp_path


TOOL = ROOT / "tools" / "bootstrap.py"


def run(house, *options):
    return python(house, TOOL, "--root", house, *options)


def changed(old: str, new: str) -> list[str]:
    """The lines that went and the lines that came, with their signs."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@each(ALL)
def test_every_notebook_holds_the_rendered_cell(path, bootstrap):
    first, *others = cells(path, "code")
    assert first.metadata.tags == ["bootstrap", "remove-cell"], "run: make bootstrap"
    assert first.source == bootstrap.rendered(), "run: make bootstrap"
    assert not any("bootstrap" in tags(cell) for cell in others), "one cell installs the course"


def test_the_cell_is_python_and_installs_a_released_version(bootstrap):
    cell = bootstrap.rendered()
    compile(cell, "bootstrap", "exec")
    version = bootstrap.version(ROOT)
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert bootstrap.source(ROOT).endswith((f"@v{version}", f"=={version}"))
    assert f'"{bootstrap.source(ROOT)}"' in cell


def test_a_new_address_changes_one_line_of_each_notebook(house):
    here = yaml.safe_load((house / "_config.yml").read_text("utf-8"))["repository"]["url"]
    before = contents(house)
    done = run(house, "--url", f"{ELSEWHERE}.git/")
    assert done.returncode == 0, done.stderr
    after = contents(house)
    differ = {name for name in before if before[name] != after[name]}
    notebooks = {name for name in before if name.endswith(".ipynb")}
    assert differ == notebooks | {"_config.yml", "README.md"}
    assert len(notebooks) == len(ALL)
    for name in differ:
        old, new = changed(before[name], after[name])
        assert (old[0], new[0]) == ("-", "+")
        assert new[1:] == old[1:].replace(here, ELSEWHERE)
    assert run(house).stdout.count("\n") == 1, "and a second time nothing is left to write"
    assert contents(house) == after


def test_a_new_version_changes_one_line_of_each_notebook_and_of_its_copies(house, bootstrap):
    package = house / "attncourse" / "__init__.py"
    package.write_text(package.read_text("utf-8").replace(bootstrap.version(ROOT), "10.0.1"))
    before = contents(house)
    assert run(house).returncode == 0
    lines = [changed(text, contents(house)[name]) for name, text in before.items()]
    assert {len(x) for x in lines} == {0, 2}
    assert all(re.search(r"(@v|^\+version: )10\.0\.1", new) for _, new in filter(None, lines))
    assert len([x for x in lines if x]) == len(ALL) + 2, "every notebook, README and CITATION.cff"


def test_once_published_the_notebooks_install_from_the_index(house, bootstrap):
    project = house / "pyproject.toml"
    text = project.read_text("utf-8").replace("published = false", "published = true")
    project.write_text(text.replace('name = "attncourse"', 'name = "attncourse-fork"'))
    assert bootstrap.source(house) == f"attncourse-fork=={bootstrap.version(ROOT)}"
    assert 'find_spec("attncourse")' in bootstrap.rendered(house), "its modules keep their name"


def test_what_was_run_or_written_stays(house, bootstrap):
    path = house / ALL[0].relative_to(ROOT)
    before = nbformat.read(path, as_version=4)
    assert bootstrap.write(path, "1 + 1\n2 + 2")
    after = nbformat.read(path, as_version=4)
    assert after.cells[1].source == "1 + 1\n2 + 2"
    after.cells[1].source = before.cells[1].source
    assert after == before


@pytest.mark.parametrize("url", ["github.com/you/fork", 'https://a/"b', "https://a.b", "ssh://a/b"])
def test_an_address_that_is_none_is_told_and_nothing_changes(url, house):
    said = refused(house, TOOL, "--root", house, "--url", url)
    assert "--url needs an address as https://github.com/you/attncourse; got " in said


def test_a_notebook_without_the_cell_is_told(house):
    path = house / ALL[0].relative_to(ROOT)
    notebook = nbformat.read(path, as_version=4)
    del notebook.cells[1]
    nbformat.write(notebook, path)
    said = refused(house, TOOL, "--root", house)
    assert 'needs one cell with the tag "bootstrap", below its title; it has 0' in said
