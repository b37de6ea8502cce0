"""Verdicts: status, points and findings of one exercise."""

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Verdict:
    """The result of a check: ``passed``, ``failed``, ``not attempted`` or ``left out``."""

    name: str
    status: str
    points: int
    out_of: int
    findings: tuple[str, ...] = ()
    diagnosis: str = ""

    @property
    def headline(self) -> str:
        points = f", {self.points} of {self.out_of} points" if self.out_of else ""
        return f"{self.name}: {self.status}{points}"


def left_out(name: str, package: str) -> Verdict | None:
    """The verdict where a required package is missing: 0 of 0 points; else None."""
    if not package or find_spec(package):
        return None
    why = (
        f"{package.capitalize()} is not installed here, so nothing can be judged; this exercise "
        f"does not count in the total (on Linux, `pip install {package}` brings it)"
    )
    return Verdict(name, "left out", 0, 0, (why,))
