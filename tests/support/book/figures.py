"""What every figure keeps to: a phone's width, an alt text, the same bytes for the same data."""

from collections.abc import Callable

from attncourse.show.figure import Figure


def texts(figure: Figure) -> list[str]:
    """The texts in a figure that are not empty."""
    return [x.get_text() for ax in figure.canvas.axes for x in ax.texts if x.get_text()]


def speaks(make: Callable[[], Figure], inches: float = 4.6, letters: int = 70) -> None:
    """Fail unless a figure is narrow, its alt text says enough, with a number, and a second one is equal to the byte."""
    figure = make()
    assert figure.canvas.get_figwidth() <= inches, "shrunk to a phone, its letters stay legible"
    assert len(figure.alt) > letters, figure.alt
    assert figure.alt.endswith("."), figure.alt
    assert any(letter.isdigit() for letter in figure.alt), figure.alt
    assert figure.png() == make().png(), "equal data, equal bytes"
