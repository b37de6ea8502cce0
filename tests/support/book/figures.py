"""What every figure keeps to: a phone's width, an alt text, the same bytes for the same data; and how to read one."""

from collections.abc import Callable

import matplotlib as mpl
from matplotlib.patches import Patch, Rectangle

from attncourse.show.figure import Figure


def texts(figure: Figure) -> list[str]:
    """The texts in a figure that are not empty."""
    return [x.get_text() for ax in figure.canvas.axes for x in ax.texts if x.get_text()]


def patches(figure: Figure, kind: type[Patch] = Rectangle) -> list:
    """The patches of a kind in the first axes."""
    return [x for x in figure.canvas.axes[0].patches if isinstance(x, kind)]


def filled(ax, colour: str) -> list:
    """The rectangles of one colour, from the top and from the left."""
    colour = mpl.colors.to_rgba(colour)
    found = [x for x in ax.patches if x.get_facecolor() == colour and x.get_fill()]
    return sorted(found, key=lambda patch: (patch.get_y(), patch.get_x()))


def speaks(make: Callable[[], Figure], inches: float = 4.6, letters: int = 70) -> None:
    """Fail unless a figure is narrow, its alt text says enough, with a number, and a second one is equal to the byte."""
    figure = make()
    assert figure.canvas.get_figwidth() <= inches, "shrunk to a phone, its letters stay legible"
    assert len(figure.alt) > letters, figure.alt
    assert figure.alt.endswith("."), figure.alt
    assert any(letter.isdigit() for letter in figure.alt), figure.alt
    assert figure.png() == make().png(), "equal data, equal bytes"
