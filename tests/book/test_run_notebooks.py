"""`tools/run_notebooks.py`: a second run changes only what a cell really says differently."""

import json
import re

import nbformat
import pytest
from support.book.notebooks import ROOT

IMPORTS = "import torch, time\nfrom attncourse.lab import train\nfrom attncourse.show import plots"
CELLS = [
    (IMPORTS, []),
    ("_ = torch.manual_seed(0)\ntorch.rand(2)", []),
    ("plots.heatmap(torch.eye(3), caption='Identity.')", []),
    ("print('a')\nprint('b')", []),
    ("print(f'{time.perf_counter():.9f} s')", ["nbval-ignore-output"]),
    ("model = torch.nn.Linear(2, 3)\nfrom attncourse.lab.data import Batch", []),
    ("draw = lambda g: Batch((torch.rand(4, 2, generator=g),), torch.tensor([0, 1, 2, 0]))", []),
    ("len(train.fit(model, draw, 20))", []),
]
PRINTED_TIME = re.compile(r"\d+\.\d{9} s")


@pytest.fixture(scope="module")
def run_notebooks():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "tools")
        import run_notebooks

        yield run_notebooks


def written(path, cells, **metadata):
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return path


@pytest.fixture(scope="module")
def executed(run_notebooks, tmp_path_factory):
    """The notebook after one run, and the ids that its cells had before."""
    cells = [nbformat.v4.new_code_cell(s, metadata={"tags": t} if t else {}) for s, t in CELLS]
    cells[3].metadata["collapsed"] = True
    path = tmp_path_factory.mktemp("executed") / "07_small.ipynb"
    written(path, cells, widgets={"x": 1})
    run_notebooks.run(path)
    return path, [cell.id for cell in cells]


@pytest.fixture
def notebook(tmp_path):
    cells = [nbformat.v4.new_code_cell(x) for x in ("1 + 1", "2", "3", "4")]
    return written(tmp_path / "07_short.ipynb", cells)


def test_second_run_changes_only_printed_times(run_notebooks, executed, tmp_path):
    first = executed[0].read_text(encoding="utf-8")
    again = tmp_path / "07_small.ipynb"
    again.write_text(first, encoding="utf-8")
    run_notebooks.run(again)
    second = again.read_text(encoding="utf-8")
    assert first != second, "the time was printed anew"
    lines = zip(first.split("\n"), second.split("\n"), strict=True)
    assert sum(one != two for one, two in lines) == 1
    assert PRINTED_TIME.sub("", first) == PRINTED_TIME.sub("", second)


def test_what_is_kept_and_what_is_not(run_notebooks, executed):
    path, given = executed
    result = nbformat.read(path, as_version=4)
    assert [cell.id for cell in result.cells] == given
    assert [cell.execution_count for cell in result.cells] == list(range(1, len(CELLS) + 1))
    assert dict(result.metadata) == run_notebooks.NOTEBOOK_METADATA
    assert "execution" not in str([cell.metadata for cell in result.cells]), "no times are stored"
    assert result.cells[3].metadata == {}
    assert result.cells[4].metadata == {"tags": ["nbval-ignore-output"]}
    (stream,), (shown,) = result.cells[3].outputs, result.cells[7].outputs
    assert (stream.text, shown.output_type) == ("a\nb\n", "execute_result"), "no progress bar"
    picture, caption = result.cells[2].outputs
    image = result.cells[2].metadata.mystnb.image
    assert image.alt == picture.data["text/plain"]
    assert image.alt.startswith("attention weights of 3 queries by 3 keys")
    assert image.width == f"{picture.metadata['image/png']['width']}px"
    assert caption.data["text/markdown"] == "*Identity.*"


def test_what_the_site_folds_is_folded_in_lab(run_notebooks):
    cells = [
        nbformat.v4.new_code_cell("1", metadata={"tags": tags, "jupyter": {"source_hidden": True}})
        for tags in (["hide-input"], ["hide-output", "nbval-ignore-output"], ["hide-cell"], [])
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    run_notebooks.tidy(notebook)
    assert [cell.metadata.get("jupyter") for cell in notebook.cells] == [
        {"source_hidden": True},
        {"outputs_hidden": True},
        {"source_hidden": True, "outputs_hidden": True},
        None,
    ]


def test_a_cell_gets_an_id_where_it_has_none_of_its_own(run_notebooks, notebook):
    raw = json.loads(notebook.read_text(encoding="utf-8"))
    given = [cell["id"] for cell in raw["cells"]]
    without = {"cell_type": "markdown", "metadata": {}, "source": []}
    for k, more in enumerate(({}, {"id": given[0]}, {"id": "not valid"}, {"id": ""})):
        raw["cells"].insert(2 * k + 1, without | more)
    notebook.write_text(json.dumps(raw), encoding="utf-8")
    run_notebooks.run(notebook)
    ids = [cell.id for cell in nbformat.read(notebook, as_version=4).cells]
    assert [x for x in ids if x in given] == given
    assert len(ids) == len(set(ids)) == len(given) + 4
    assert [cell.id for cell in run_notebooks.cell_ids.read(notebook).cells] == ids


def test_failing_notebook_is_not_written(run_notebooks, notebook):
    broken = nbformat.read(notebook, as_version=4)
    broken.cells = [nbformat.v4.new_code_cell("1 / 0", id="a")]
    nbformat.write(broken, notebook)
    before = notebook.read_bytes()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        run_notebooks.run(notebook)
    assert notebook.read_bytes() == before
