"""What is left out because it has passed: only while everything that it depends on stays the same."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support import proofs

pytestmark = pytest.mark.quick


@pytest.fixture
def run(tmp_path, monkeypatch):
    """``run(outcomes)``: one run of two tests and a notebook of two cells; what was left out."""
    monkeypatch.setattr(proofs, "ROOT", tmp_path)
    monkeypatch.setattr(proofs, "KEPT", tmp_path / ".proofs")
    monkeypatch.setattr(proofs, "ALWAYS", ("requirements.txt",))
    monkeypatch.setattr(proofs, "DEPENDS", {"tests": ("code",), "chapters": ("code",)})
    for name in ("tests/test_a.py", "chapters/one.ipynb", "code/steps.py", "requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    ids = {
        "tests/test_a.py::test_x": "tests/test_a.py",
        "tests/test_a.py::test_y": "tests/test_a.py",
        "chapters/one::ipynb::Cell 0": "chapters/one.ipynb",
        "chapters/one::ipynb::Cell 1": "chapters/one.ipynb",
    }

    def run(outcomes=None, look=True) -> list[str]:
        proofs.digest_of.cache_clear()
        plugin, deselected = proofs.Proofs(look=look, keep=True), []
        hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
        items = [
            SimpleNamespace(nodeid=nodeid, path=tmp_path / path, user_properties=[])
            for nodeid, path in ids.items()
        ]
        plugin.pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)
        for item in items:
            outcome = (outcomes or {}).get(item.nodeid, "passed")
            plugin.pytest_runtest_logreport(
                SimpleNamespace(
                    nodeid=item.nodeid, when="call", user_properties=item.user_properties,
                    passed=outcome == "passed", skipped=outcome == "skipped",
                )
            )  # fmt: skip
        plugin.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace()), pytest.ExitCode.OK)
        return [item.nodeid.rpartition("::")[2] for item in deselected]

    run.root = tmp_path
    return run


def test_what_python_leaves_behind_is_no_source():
    """It comes with the first run, so that a second one would prove everything again."""
    assert not [x for paths in proofs.DEPENDS.values() for x in paths if "__pycache__" in x]


def test_what_is_missing_changes_when_it_comes(run):
    (run.root / "code" / "steps.py").unlink()
    (run.root / "code").rmdir()
    assert run() == [], "a site that was not built is no error of the run"
    assert len(run()) == 4
    (run.root / "code").mkdir()
    assert run() == []


def test_what_passed_is_left_out_until_something_changes(run):
    assert run() == []
    assert run() == ["test_x", "test_y", "Cell 0", "Cell 1"]
    assert run(look=False) == []
    for changed in ("code/steps.py", "requirements.txt"):
        (run.root / changed).write_text("other")
        assert run() == [], changed
        assert len(run()) == 4
    (run.root / "chapters/one.ipynb").write_text("other")
    assert run() == ["test_x", "test_y"]


def test_what_failed_or_was_skipped_runs_again(run):
    run({"tests/test_a.py::test_x": "failed", "tests/test_a.py::test_y": "skipped"})
    assert run() == ["Cell 0", "Cell 1"]


def test_a_notebook_passes_as_a_whole(run):
    run({"chapters/one::ipynb::Cell 1": "failed"})
    assert run() == ["test_x", "test_y"]
    run({"chapters/one::ipynb::Cell 0": "skipped"})
    assert len(run()) == 4, "a cell for a GPU is skipped where there is none"


def test_a_test_depends_on_the_helpers_that_it_imports_and_on_theirs(run):
    files = {
        "test_a.py": "from support.cases.layers import x\nimport beside, torch",
        "beside/some.py": "",
        "support/cases/layers.py": "from support import oracles",
        "support/oracles.py": "import support.cases.layers",
        "support/claims.py": "",
    }
    for name, text in files.items():
        (run.root / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (run.root / "tests" / name).write_text(text)
    proofs.helpers.cache_clear()
    places = ("beside", "support/cases", "support/oracles.py")
    beside, cases, oracles = (run.root / "tests" / place for place in places)
    assert proofs.helpers(run.root / "tests/test_a.py") == [beside, cases, oracles]
    assert proofs.helpers(run.root / "chapters/one.ipynb") == [], "no code of the tests runs there"
    run()
    (run.root / "tests/support/claims.py").write_text("other")
    assert len(run()) == 4
    oracles.write_text("import support.cases.layers, torch")
    assert run() == ["Cell 0", "Cell 1"]


def test_helpers_that_no_import_names_are_among_what_is_imported():
    """All cases and claims are registered, and a service runs the attacks."""
    tests = Path(proofs.__file__).parents[1]
    found = proofs.helpers(tests / "mechanism/test_mutants.py")
    assert {tests / "support" / x for x in ("cases", "claims", "mutants")} < set(found)
    assert tests / "support/book" not in found
    assert tests / "grader/attacks" in proofs.helpers(tests / "grader/test_attacks.py")


def test_every_folder_of_tests_says_what_it_depends_on():
    root = Path(proofs.__file__).parents[2]
    folders = {path.parent for path in root.glob("tests/*/test_*.py")}
    assert {folder.relative_to(root).as_posix() for folder in folders} <= set(proofs.DEPENDS)
    assert all((root / x).exists() for needed in proofs.DEPENDS.values() for x in needed)
