"""What happens to notebooks on their way: functions that damage one, in place, at random.

Each returns the numbers of the cells that it touched, from 0, as they were before the damage.
``HEALED`` are those after which no answer may be lost, not even one that was hit.
"""

import random
from copy import deepcopy


def lines(cell) -> list[str]:
    text = cell["source"]
    if isinstance(text, list):
        text = "".join(line if line.endswith("\n") else f"{line}\n" for line in text)
    return text.rstrip("\n").split("\n")


def pick(notebook, rng: random.Random, kind: str = "") -> int:
    of_kind = [k for k, c in enumerate(notebook["cells"]) if kind in ("", c.get("cell_type"))]
    return rng.choice(of_kind)


def retype(notebook, rng) -> list[int]:
    where = pick(notebook, rng, "code")
    notebook["cells"][where]["cell_type"] = rng.choice(["markdown", "raw"])
    return [where]


def strip_metadata(notebook, rng) -> list[int]:
    for cell in notebook["cells"]:
        cell["metadata"] = rng.choice([{}, None, [], {"nbgrader": 3}, {"tags": "x"}])
    return []


def duplicate(notebook, rng) -> list[int]:
    where = pick(notebook, rng, "code")
    notebook["cells"].insert(where + 1, deepcopy(notebook["cells"][where]))
    return [where]


def split(notebook, rng) -> list[int]:
    where = pick(notebook, rng, "code")
    cell = notebook["cells"][where]
    text = lines(cell)
    if len(text) > 1:
        at = rng.randrange(1, len(text))
        tail = deepcopy(cell) | {"source": "\n".join(text[at:]), "metadata": {}}
        cell["source"] = "\n".join(text[:at])
        notebook["cells"].insert(where + 1, tail)
    return [where]


def merge_code(notebook, rng) -> list[int]:
    """An answer with its check below it."""
    cells = notebook["cells"]
    pairs = [
        k
        for k in range(len(cells) - 1)
        if cells[k]["cell_type"] == cells[k + 1]["cell_type"] == "code"
    ]
    where = rng.choice(pairs)
    cells[where]["source"] = "\n".join([*lines(cells[where]), "", *lines(cells.pop(where + 1))])
    return [where, where + 1]


def merge_text(notebook, rng) -> list[int]:
    """A cell with the next one, whatever they are; the first decides what they become."""
    cells = notebook["cells"]
    where = rng.randrange(len(cells) - 1)
    cells[where]["source"] = "\n\n".join(
        "\n".join(lines(c)) for c in (cells[where], cells.pop(where + 1))
    )
    return [where, where + 1]


def delete_checks(notebook, rng) -> list[int]:
    text = ["\n".join(lines(c)) for c in notebook["cells"]]
    gone = [k for k, t in enumerate(text) if t.startswith("check(")]
    notebook["cells"] = [c for k, c in enumerate(notebook["cells"]) if k not in gone]
    return gone


def delete(notebook, rng) -> list[int]:
    where = pick(notebook, rng)
    notebook["cells"].pop(where)
    return [where]


def reline(notebook, rng) -> list[int]:
    """Other line ends, sources as lists, a byte order mark."""
    for cell in notebook["cells"]:
        text = "\n".join(lines(cell))
        ends = rng.choice(["\n", "\r\n", "\r"])
        cell["source"] = rng.choice(["", "\ufeff"]) + text.replace("\n", ends)
        if rng.random() < 0.5:
            cell["source"] = text.splitlines(keepends=rng.random() < 0.5)
    return []


def tabs(notebook, rng) -> list[int]:
    for cell in notebook["cells"]:
        cell["source"] = "\n".join(lines(cell)).replace("    ", "\t")
    return []


def garbage(notebook, rng) -> list[int]:
    for cell in notebook["cells"]:
        cell["outputs"] = rng.choice([3, None, [None, {"output_type": 7}], {"x": []}])
        cell["execution_count"] = rng.choice(["x", -1, 1e400])
    notebook["metadata"] = rng.choice([None, [], "x"])
    notebook["nbformat"] = rng.choice([None, 3, 5, "4"])
    return []


def magics(notebook, rng) -> list[int]:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            before = rng.choice(
                ["%matplotlib inline\n", "!pip install 'x\n", "x = !ls\n", "%%time\n"]
            )
            cell["source"] = before + "\n".join([*lines(cell), "torch?", ""])
    return []


def null_bytes(notebook, rng) -> list[int]:
    where = pick(notebook, rng, "code")
    text = "\n".join(lines(notebook["cells"][where]))
    at = rng.randrange(len(text) + 1)
    notebook["cells"][where]["source"] = text[:at] + "\0\0" + text[at:]
    return [where]


def old_format(notebook, rng) -> list[int]:
    """As nbformat 3 had it."""
    cells = notebook.pop("cells")
    for cell in cells:
        if cell["cell_type"] == "code":
            cell["input"] = cell.pop("source")
    notebook["worksheets"] = [{"cells": cells}]
    return []


def no_text(notebook, rng) -> list[int]:
    where = pick(notebook, rng)
    notebook["cells"][where]["source"] = rng.choice([None, 3, {"a": 1}, ["a", 1], [[]], True])
    return [where]


def no_cell(notebook, rng) -> list[int]:
    where = pick(notebook, rng)
    notebook["cells"][where] = rng.choice([None, 3, "cell", [], {}, {"cell_type": ["code"]}])
    return [where]


def half_a_letter(notebook, rng) -> list[int]:
    where = pick(notebook, rng)
    notebook["cells"][where]["source"] = "\n".join(
        ["x = '\ud800'", *lines(notebook["cells"][where])]
    )
    return [where]


HEALED = (
    retype,
    strip_metadata,
    duplicate,
    split,
    merge_code,
    delete_checks,
    reline,
    tabs,
    garbage,
    magics,
    null_bytes,
    old_format,
)
DAMAGES = (*HEALED, merge_text, delete, no_text, no_cell, half_a_letter)
