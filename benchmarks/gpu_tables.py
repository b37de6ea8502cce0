"""From single measurements to the tables that the book shows."""

from gpu_check import DTYPES, SHAPES
from gpu_speed import CANDIDATES, KEY_LENGTHS, Case
from gpu_sweep import LENGTH, SETTINGS

# What we hope for: (pass, ours, theirs, the least speed relative to theirs at each head_dim).
AIMS = (
    ("forward", "triton", "FLASH_ATTENTION", {64: 1.2, 128: 1.05}),
    ("backward", "triton", "FLASH_ATTENTION", {64: 0.9, 128: 0.9}),
    ("forward", "hopper", "CUDNN_ATTENTION", {64: 1.0, 128: 0.8}),
)
WORK = (
    "bfloat16, 16384 tokens in a batch, 2048 / head_dim heads. 4 b h n^2 d operations count for the forward "
    "pass, half of them if causal, and 2.5 times as many for the backward pass. Medians. A dash: not possible "
    "there, or not measured."
)


def tables(cells: dict, machine: dict[str, str]) -> dict[str, dict]:
    """All tables of which something was measured.

    Args:
        cells: {(table, row, column): value}, as the parts yield them.
        machine: card and versions, which every table names.
    """
    sentence = (
        " Measured on {card}, driver {driver}, torch {torch}, Triton {triton}, CUDA {cuda}, {date}."
    )
    made = {
        "ratios": ratios(cells),
        "forward": speeds(cells, "forward"),
        "backward": speeds(cells, "backward"),
        "memory": memory(cells),
        "tiles": tiles(cells),
        "correctness": correctness(cells),
    }
    made = {name: table for name, table in made.items() if table["rows"]}
    for table in made.values():
        table["caption"] += f": {machine['card']}"
        table["note"] += sentence.format(**machine)
    return made


def in_words(head_dim: int, is_causal: bool) -> str:
    return f"head_dim {head_dim}, {'causal' if is_causal else 'full'}"


def named(case: Case) -> str:
    return f"{in_words(case.head_dim, case.is_causal)}, length {case.length}"


def tflops(case: Case, table: str, milliseconds: float | None) -> float | None:
    return milliseconds and round(case.flops(table) / milliseconds / 1e9, 1)


def measured(cells: dict, table: str) -> list:
    """The rows of a table, in the order in which they were measured."""
    return list(dict.fromkeys(row for name, row, _ in cells if name == table))


def speeds(cells: dict, table: str) -> dict:
    rows = [
        [named(case), *(tflops(case, table, cells.get((table, case, c))) for c in CANDIDATES)]
        for case in measured(cells, table)
    ]
    kept = " What the backward pass needs is kept." if table == "forward" else ""
    return {
        "caption": f"Speed of the {table} pass, in TFLOP/s",
        "note": WORK + kept,
        "columns": ["case", *CANDIDATES],
        "rows": rows,
    }


def memory(cells: dict) -> dict:
    rows = []
    for case in measured(cells, "memory"):
        values = (cells.get(("memory", case, c)) for c in CANDIDATES)
        rows.append([named(case), *(None if v is None else round(v, 1) for v in values)])
    return {
        "caption": "Memory of the forward and backward pass beyond their inputs, in MiB",
        "note": "The same cases. The output and the three gradients are part of it.",
        "columns": ["case", *CANDIDATES],
        "rows": rows,
    }


def ratios(cells: dict) -> dict:
    """Their time divided by ours, beside what we aim at."""
    rows = []
    for table, ours, theirs, aims in AIMS:
        for setting in SETTINGS:
            values = [ratio(cells, table, Case(*setting, n), ours, theirs) for n in KEY_LENGTHS]
            if all(value is None for value in values):
                continue
            aim = aims[setting[0]]
            reached = None if None in values else min(values) >= aim
            shown = (None if value is None else round(value, 3) for value in values)
            name = f"{ours} {table} / {theirs}, {in_words(*setting)}"
            rows.append([name, *shown, aim, reached])
    return {
        "caption": "Our speed relative to torch's, and what we aim at",
        "note": "Above 1 is faster than torch. An aim is reached if it is at every length shown.",
        "columns": ["ours / theirs", *(f"length {n}" for n in KEY_LENGTHS), "aim", "reached"],
        "rows": rows,
    }


def ratio(cells: dict, table: str, case: Case, ours: str, theirs: str) -> float | None:
    a, b = (cells.get((table, case, name)) for name in (ours, theirs))
    return b / a if a and b else None


def tiles(cells: dict) -> dict:
    rows = []
    for kernel, tile in measured(cells, "tiles"):
        table = "backward" if "gradient" in kernel else "forward"
        row = ["{}: {} x {}, {} warps, {} stages".format(kernel, *tile)]
        for setting in SETTINGS:
            value = cells.get(("tiles", (kernel, tile), setting))
            value = tflops(Case(*setting, LENGTH), table, value)
            used = cells.get(("in use", kernel, setting)) == tile
            row.append(f"{'–' if value is None else value} (in use)" if used else value)
        rows.append(row)
    return {
        "caption": f"Tiles of rows x columns at length {LENGTH}, in TFLOP/s",
        "note": "For a gradient, of the whole backward pass, with the other kernel as it is used. A dash: "
        "not possible, or too much for the card.",
        "columns": ["tile", *(in_words(*setting) for setting in SETTINGS)],
        "rows": rows,
    }


def correctness(cells: dict) -> dict:
    order = [shape.name for shape in SHAPES]
    found = sorted(
        measured(cells, "correctness"), key=lambda row: (row[0] != "triton", order.index(row[1]))
    )
    rows = [
        [f"{backend}: {name}", *(cells.get(("correctness", (backend, name), t)) for t in DTYPES)]
        for backend, name in found
    ]
    return {
        "caption": "Largest error in units of the error of the explicit formula in the same dtype",
        "note": "Of output, log-sum-exp and the three gradients, against float64. Right is what stays at or below "
        "2; anything else is named. A dash: not offered by this backend.",
        "columns": ["case", *DTYPES],
        "rows": rows,
    }
