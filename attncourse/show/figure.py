"""What all figures share: the object that a figure function returns, and the style."""

import base64
import io
from typing import Any

from cycler import cycler
from matplotlib.figure import Figure as Canvas
from PIL import Image

DPI = 150
INK, PALE, ACCENT = "#24292f", "#eef1f4", "#b85000"
STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=["#0b5394", "#d95f02", "#1b7837", "#7b3294", "#444444"]),
    "hatch.color": "#9aa0a6",
    "hatch.linewidth": 0.6,
    "lines.linewidth": 2,
}


class Figure:
    """A picture that can speak: shown as PNG with ``alt`` as its text and ``caption`` below.

    Args:
        canvas: the matplotlib figure, at most 7 inches wide.
        alt: what the picture shows, with a number, for readers who do not see it.
        caption: what the picture is, shown under it; may be empty.
    """

    def __init__(self, canvas: Canvas, alt: str, caption: str = ""):
        self.canvas, self.alt, self.caption, self._png = canvas, alt, caption, b""

    def __repr__(self) -> str:
        return self.alt

    def png(self) -> bytes:
        """The picture in 256 colours, a third of the bytes; equal data give equal bytes."""
        if not self._png:  # drawn once: a second drawing would move the axes by some pixels
            full, small = io.BytesIO(), io.BytesIO()
            self.canvas.savefig(full, dpi=DPI, bbox_inches="tight")
            picture = Image.open(full).convert("RGB").quantize(256, dither=Image.Dither.NONE)
            picture.save(small, format="PNG", optimize=True)
            self._png = small.getvalue()
        return self._png

    def _ipython_display_(self) -> None:
        from IPython.display import Markdown, display

        width = round(self.canvas.get_figwidth() * 100)
        data = {"image/png": base64.b64encode(self.png()).decode(), "text/plain": self.alt}
        display(data, raw=True, metadata={"image/png": {"width": width}})
        if self.caption:
            display(Markdown(f"*{self.caption}*"))
