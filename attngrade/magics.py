"""What a notebook allows beside Python, as IPython turns it into calls of ``get_ipython()``."""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from IPython.core.inputtransformer2 import TransformerManager

from attngrade.piece import Piece, parse

# IPython reads the whole cell again for each magic, and takes quadratic time for a name with a question
# mark behind it: so many characters a notebook, all readings together, and no name that nobody types.
MOST_READ = 300_000
_ENDLESS_NAME = re.compile(r"[\w*.\[\]-]{1000}")

# What stands below these is Python. With anything else in the line, the worker sees to it.
_RUN_THE_BODY = re.compile(r"\s*%%(?:capture|prun|time|timeit)[ \t]*\n")
_MAGIC = re.compile(r"^[ \t]*[!%?,;/]|=[ \t]*[!%]|\?[ \t]*$", re.MULTILINE)


def as_python(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The cells without magics; one that is no Python even so, or is hard to read, stays as it is."""
    room, transform = MOST_READ, TransformerManager().transform_cell
    for piece in pieces:
        source = piece.source
        while body := _RUN_THE_BODY.match(source):
            source = source[body.end() :]
        if not parse(source):
            readings = len(source) * (1 + len(_MAGIC.findall(source)))
            if readings <= room and not _ENDLESS_NAME.search(source):
                room -= readings
                with suppress(Exception):  # running it will tell the same slip
                    source = transform(source).removesuffix("\n")
        yield replace(piece, source=source)
