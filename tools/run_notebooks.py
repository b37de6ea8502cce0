"""Execute notebooks in place, so that a second run changes only what really changed.

Cells keep their ids, nothing stores a time, and each figure's alt text moves from its output into
the cell's metadata, where the book looks for it. What the tags hide-input, hide-output and hide-cell fold
on the site is folded in JupyterLab, too. The first cell is that of `tools/bootstrap.py`.

    python tools/run_notebooks.py chapters/01_dot_product.ipynb ...
"""

import sys
import time
from pathlib import Path

import bootstrap
import cell_ids
import nbformat
from nbclient import NotebookClient

KEPT_METADATA = ("tags", "jupyter", "mystnb", "nbgrader", "deletable", "editable")
FOLDS = {
    "source_hidden": {"hide-input", "hide-cell"},
    "outputs_hidden": {"hide-output", "hide-cell"},
}
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(path: Path) -> float:
    """Execute one notebook and write it back; returns the seconds it took."""
    notebook = cell_ids.read(path)
    bootstrap.fill(notebook, bootstrap.rendered())
    started = time.perf_counter()
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    seconds = time.perf_counter() - started
    tidy(notebook)
    nbformat.write(notebook, path)
    return seconds


def tidy(notebook) -> None:
    """Minimal metadata, alt texts, folds; no erased progress bars."""
    notebook.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if not _is_blank(out)]
            _move_alt(cell)
            _fold(cell)
        cell.metadata = nbformat.from_dict(
            {key: cell.metadata[key] for key in KEPT_METADATA if key in cell.metadata}
        )
    nbformat.validate(notebook)


def _is_blank(output) -> bool:
    return output.output_type == "stream" and not output.text.strip()


def _move_alt(cell) -> None:
    """The text of a picture is its alt text, and its width belongs to the page as well."""
    cell.metadata.pop("mystnb", None)
    for output in cell.outputs:
        if "image/png" in output.get("data", {}):
            width = output.metadata.get("image/png", {}).get("width", 620)
            image = {"alt": output.data["text/plain"], "width": f"{width}px"}
            cell.metadata["mystnb"] = {"image": image}


def _fold(cell) -> None:
    """JupyterLab reads metadata where the site reads tags."""
    tags = set(cell.metadata.get("tags", []))
    cell.metadata["jupyter"] = {part: True for part, by in FOLDS.items() if tags & by}
    if not cell.metadata["jupyter"]:
        del cell.metadata["jupyter"]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {run(Path(name)):.1f} s")
