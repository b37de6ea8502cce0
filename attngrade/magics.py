"""Magics and shell commands of notebooks, turned into calls of ``get_ipython()`` by IPython."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from IPython.core.inputtransformer2 import TransformerManager

from attngrade.piece import Piece, parse

# IPython reads the whole cell again for each magic, and takes quadratic time for a name before a question
# mark. So all readings of a notebook together are limited, and no cell with an endless name is read.
MOST_READ = 300_000  # characters
_ENDLESS_NAME = re.compile(r"[\w*.\[\]-]{1000}")

# The lines below these magics are Python. With options in the first line, the worker handles the magic.
_RUN_THE_BODY = re.compile(r"\s*%%(?:capture|prun|time|timeit)[ \t]*\n")
_MAGIC = re.compile(r"^[ \t]*[!%?,;/]|=[ \t]*[!%]|\?[ \t]*$", re.MULTILINE)


def as_python(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The cells without magics; a cell that is no Python even then, or is costly to read, stays as it is."""
    room, transform = MOST_READ, TransformerManager().transform_cell
    for piece in pieces:
        source = piece.source
        while body := _RUN_THE_BODY.match(source):
            source = source[body.end() :]
        if not parse(source):
            readings = len(source) * (1 + len(_MAGIC.findall(source)))
            if readings <= room and not _ENDLESS_NAME.search(source):
                room -= readings
                with suppress(Exception):  # the error comes again when the cell runs
                    source = transform(source).removesuffix("\n")
        yield replace(piece, source=source)
