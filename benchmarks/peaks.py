"""A table of memory over lengths, for methods whose forward and backward passes are compared."""

from collections.abc import Callable

from flash import growth, verdict
from results import write_table

from attncourse.lab.memory import peak_bytes

PASSES = ("forward", "forward and backward")


def write_peaks(
    file: str,
    made: Callable[[int], dict],
    names: list[str],
    lengths,
    *,
    caption: str,
    ours: str,
    limit: float,
) -> None:
    """MiB beyond the inputs.

    Args:
        file: name of the results.
        made: length -> name -> (forward, forward and backward).
        names: columns, the first of them held to the limit.
        ours: what the first is called in the note.
        limit: largest exponent allowed.
    """
    peaks = {(kind, name): [] for kind in PASSES for name in names}
    for length in lengths:
        found = made(length)
        for kind, name in peaks:
            peaks[kind, name].append(peak_bytes(found[name][PASSES.index(kind)]))
        print(length, {key: row[-1] >> 20 for key, row in peaks.items()}, flush=True)
    exponents = [round(growth(lengths, row), 2) for row in peaks.values()]
    worst = max(exponents[0], exponents[len(names)])
    write_table(
        file,
        caption=caption,
        note=f"Float32, 4 heads of width 64. For {ours} {verdict(worst, limit)}.",
        columns=["length", *(f"{name}, {kind}" for kind, name in peaks)],
        rows=[
            *(
                [f"{n:,}", *(round(row[k] / 2**20, 1) for row in peaks.values())]
                for k, n in enumerate(lengths)
            ),
            ["exponent", *exponents],
        ],
    )
