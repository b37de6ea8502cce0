"""From single measurements to the tables that the book shows. What was not measured is None, and never filled in."""

from gpu import lengths
from gpu.candidates import NAMES, OURS, SETTINGS, Case
from gpu.check import DTYPES
from gpu.ladder import LENGTH, full
from gpu.machine_code import COLUMNS as CODE_COLUMNS
from gpu.speed import KEY_LENGTHS

# What we hope for: (pass, ours, theirs, the least speed relative to theirs at each head_dim).
AIMS = (
    ("forward", "triton", "FLASH_ATTENTION", {64: 1.2, 128: 1.05}),
    ("backward", "triton", "FLASH_ATTENTION", {64: 0.9, 128: 0.9}),
    ("forward", "hopper", "CUDNN_ATTENTION", {64: 1.0, 128: 0.8}),
    ("forward", "gluon", "CUDNN_ATTENTION", {64: 1.0, 128: 0.95}),
)
DASH = " A dash: not possible there, or not measured."
WORK = (
    "Numbers of two bytes, 16384 tokens in a batch, 2048 / head_dim heads. 4 b h n^2 d operations count for the "
    "forward pass, half of them if causal, and 2.5 times as many for the backward pass, however many a kernel "
    "does. Medians." + DASH
)
ONE_SAMPLE = f"One sample, {lengths.HEADS} heads of width {lengths.HEAD_DIM}, causal.{DASH}"
AT_LENGTH = f"At length {LENGTH}, 16384 tokens in a batch, 2048 / head_dim heads."


def tables(cells: dict, machine: dict[str, str]) -> dict[str, dict]:
    """All tables of which something was measured.

    Args:
        cells: {(table, row, column): value}, as the parts yield them.
        machine: card and versions, which every table names.
    """
    made = {
        "correctness": correctness(cells),
        "ratios": ratios(cells),
        "forward": speeds(cells, "forward"),
        "backward": speeds(cells, "backward"),
        "ladder": ladder(cells),
        "parts": parts(cells),
        "speed_by_length": speed_by_length(cells),
        "time_by_length": by_length(
            cells, "time_by_length", median, "Forward and backward pass, in ms", ONE_SAMPLE
        ),
        "memory_by_length": by_length(
            cells, "memory_by_length", lambda mib: mib,
            "Memory of both passes beyond their inputs, in MiB",
            f"{ONE_SAMPLE} The output and the three gradients are part of it.",
        ),
        "roofline": roofline(cells),
        "peaks": peaks(cells),
        "tiles": tiles(cells),
        "code": code(cells),
        "strips": strips(cells),
    }  # fmt: skip
    made = {name: table for name, table in made.items() if table["rows"]}
    for name, table in made.items():
        if machine["card"] != "no card":
            table["caption"] += f": {machine['card']}"
        table["note"] = f"{table['note']} {origin(name, machine)}".strip()
    return made


def origin(name: str, machine: dict[str, str]) -> str:
    """Where numbers come from: a compiler needs no card, everything else does."""
    if name in ("code", "strips"):
        return "Compiled by Triton {triton} with Python {python}, {date}; nothing was run.".format(
            **machine
        )
    return (
        "Measured on {card}, driver {driver}, torch {torch}, Triton {triton}, CUDA {cuda}, "
        "Python {python}, {date}.".format(**machine)
    )


def in_words(head_dim: int, is_causal: bool) -> str:
    return f"head_dim {head_dim}, {'causal' if is_causal else 'full'}"


def named(case: tuple) -> str:
    return f"{in_words(*case[:2])}, length {case[2]}"


def median(value: tuple | None) -> float | None:
    return value and round(value[0], 4)


def tflops(case: Case, table: str, value: tuple | None) -> float | None:
    return value and round(case.flops(table) / value[0] / 1e9, 1)


def measured(cells: dict, table: str) -> list:
    """The rows of a table, in the order in which they were measured."""
    return list(dict.fromkeys(row for name, row, _ in cells if name == table))


def taking_part(cells: dict, table: str, order=NAMES) -> list[str]:
    """The candidates of which anything was measured."""
    found = {column for name, _, column in cells if name == table}
    return [name for name in order if name in found]


def speeds(cells: dict, table: str) -> dict:
    names = taking_part(cells, table)
    rows = [
        [named(case), *(tflops(Case(*case), table, cells.get((table, case, c))) for c in names)]
        for case in sorted(measured(cells, table))
    ]
    kept = " What the backward pass needs is kept." if table == "forward" else ""
    return {
        "caption": f"Speed of the {table} pass, in TFLOP/s",
        "note": WORK + kept,
        "columns": ["case", *names],
        "rows": rows,
    }


def by_length(cells: dict, table: str, shown, caption: str, note: str) -> dict:
    """A row for each length; `shown` takes what was measured, and the length is the row's name."""
    names = taking_part(cells, table, lengths.NAMES)
    rows = []
    for n in sorted(measured(cells, table)):
        values = (cells.get((table, n, name)) for name in names)
        rows.append([n, *(None if v is None else shown(v) for v in values)])
    return {"caption": caption, "note": note, "columns": ["length", *names], "rows": rows}


def speed_by_length(cells: dict) -> dict:
    """Milliseconds at a length into operations in a second."""
    table, caption = "speed_by_length", "Speed of the forward pass by length, in TFLOP/s"
    timed = by_length(cells, table, lambda ms: ms[0], caption, ONE_SAMPLE)
    for row in timed["rows"]:
        n = row[0]
        work = 2 * lengths.HEADS * n * n * lengths.HEAD_DIM  # half of all, because it is causal
        row[1:] = [ms and round(work / ms / 1e9, 1) for ms in row[1:]]
    return timed


def ladder(cells: dict) -> dict:
    def speed(rung, setting):
        return tflops(Case(*setting, LENGTH), "forward", cells.get(("ladder", rung, setting)))

    return {
        "caption": "The forward pass, one idea at a time, in TFLOP/s",
        "note": f"{AT_LENGTH} A rung with a plus keeps what the ones above it added.{DASH}",
        "columns": ["what is done", *(in_words(*setting) for setting in SETTINGS)],
        "rows": [[rung, *(speed(rung, s) for s in SETTINGS)] for rung in measured(cells, "ladder")],
    }


def parts(cells: dict) -> dict:
    return {
        "caption": "What costs what: the forward pass with work left out, in ms",
        "note": f"{AT_LENGTH} The results are wrong on purpose; only the times are of interest.",
        "columns": ["what is done", *(in_words(*setting) for setting in full())],
        "rows": [
            [part, *(median(cells.get(("parts", part, setting))) for setting in full())]
            for part in measured(cells, "parts")
        ],
    }


def roofline(cells: dict) -> dict:
    nothing = (None, None, None)
    return {
        "caption": "Operations per byte that must move, and what is reached",
        "note": "16 heads of width 128, all keys visible. Bytes: inputs and output once, and scores as often as "
        "they are written and read where they are kept.",
        "columns": ["what is done", "operations per byte", "TFLOP/s", "TB/s"],
        "rows": [
            [": ".join(row), *cells.get(("roofline", row, "reached"), nothing)]
            for row in measured(cells, "roofline")
        ],
    }


def peaks(cells: dict) -> dict:
    rows = [[what, cells.get(("peaks", what, "value"))] for what in measured(cells, "peaks")]
    return {
        "caption": "What the card does at most",
        "note": "A product of two square matrices of 8192 rows; a copy and a softmax of rows of 8192, bytes read "
        "and written. Numbers of two bytes.",
        "columns": ["operation", "reached"],
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
    return b[0] / a[0] if a and b else None


def tile_name(kernel: str, tile: tuple) -> str:
    if kernel == "gluon":
        columns, stages, groups = tile
        return (
            f"gluon: {64 * groups} x {columns}, {groups} groups of 4 warps and 1, {stages} stages"
        )
    return "{}: {} x {}, {} warps, {} stages".format(kernel, *tile)


def tiles(cells: dict) -> dict:
    rows = []
    for kernel, tile in measured(cells, "tiles"):
        table = "backward" if "gradient" in kernel else "forward"
        row = [tile_name(kernel, tile)]
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
    found = sorted(measured(cells, "correctness"), key=lambda row: OURS.index(row[0]))
    rows = [
        [": ".join(row), *(cells.get(("correctness", row, dtype)) for dtype in DTYPES)]
        for row in found
    ]
    return {
        "caption": "Largest error in units of the error of the explicit formula in the same dtype",
        "note": "Of output, log-sum-exp and the three gradients (if there is a backward pass), against float64. "
        "Right is what stays at or below 2; anything else is named. A dash: not offered by this backend.",
        "columns": ["case", *DTYPES],
        "rows": rows,
    }


def code(cells: dict) -> dict:
    rows = []
    for row in measured(cells, "code"):
        rows.append([named_kernel(row), *(cells.get(("code", row, c)) for c in CODE_COLUMNS)])
    return {
        "caption": "What the compiler makes of the forward pass for a Hopper card",
        "note": "A turn is the inner loop once, for one warp with 16 rows: 34 exponentials are those of 64 columns, 66 those "
        "of 128. An exponential is hidden if a product of matrices is "
        "under way when it starts.",
        "columns": ["kernel", *CODE_COLUMNS],
        "rows": rows,
    }


def named_kernel(row: tuple) -> str:
    return f"{row[0]}, {in_words(*row[1:])}"


def strips(cells: dict) -> dict:
    return {
        "caption": "The instructions of one turn of the inner loop, in order",
        "note": "How many of a kind follow each other: p starts a product of matrices, q the last of a group, y waits "
        "until one group of products is under way, z until none is, w for something else, e is an exponential, l "
        "loads a tile ahead, s spills a register, o is anything else.",
        "columns": ["kernel", "instructions"],
        "rows": [
            [named_kernel(row), cells[("strips", row, "turn")]] for row in measured(cells, "strips")
        ],
    }
