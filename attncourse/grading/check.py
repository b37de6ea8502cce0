"""`check`, `hint` and `status`: what a student sees in the notebook."""

import html
import os
import sys
from collections import Counter
from dataclasses import asdict
from typing import Any

from attncourse.grading.exercises import CHAPTERS, chapter_of, load, names
from attncourse.grading.own_code import refused
from attncourse.grading.verdict import Verdict

COLOURS, GREY = {"passed": "#1a7f37", "failed": "#cf222e"}, "#8c959f"
SHOWN_FINDINGS = 3

_verdicts: dict[str, Verdict] = {}
_hints_given: Counter[str] = Counter()


class CheckFailed(AssertionError):
    """Raised by `check` for a wrong answer, so that a run of the notebook notices."""

    def _render_traceback_(self) -> list[str]:
        """The message alone for IPython: the report above it has the details."""
        return [str(self)]


def check(name: str, answer: Any) -> None:
    """Judge an answer and show a report: the property that failed, and the most likely mistake.

    An answer that is or calls the course's own code is refused.

    Args:
        name: the exercise, for example ``"split_heads"``.
        answer: your function, number or model.

    Raises:
        CheckFailed: the answer is wrong. An untouched stub only reports "not attempted", and what
            cannot be judged here "left out", except under nbgrader, which gives full points to a
            cell that raises nothing.
        KeyError: no exercise has this name.
    """
    exercise = load(name)
    verdict = refused(name, exercise.out_of, answer) or exercise.grade(answer)
    _verdicts[name] = verdict
    _show(verdict)
    if verdict.status == "failed":
        raise CheckFailed(f'{name} is not right yet. hint("{name}") helps.')
    if verdict.status != "passed" and os.environ.get("NBGRADER_EXECUTION"):
        raise CheckFailed(
            f"{name} is not attempted yet. Replace the stub, then run this cell again."
            if verdict.status == "not attempted"
            else f"{name} cannot be judged. {verdict.findings[0]}. For the teacher: install it "
            "where nbgrader runs, or give these points by hand."
        )


def hint(name: str, level: int | None = None) -> None:
    """Show the next of three hints, or the hint of a given level (1 to 3)."""
    hints = load(name).hints
    if level is None:
        if _hints_given[name] == len(hints):
            print("That was the last hint. Here it is again.")
        level = _hints_given[name] = min(_hints_given[name] + 1, len(hints))
    if not 1 <= level <= len(hints):
        raise ValueError(f"level must be 1 to {len(hints)}; got {level}")
    print(f"Hint {level} of {len(hints)}: {hints[level - 1]}")


def status(chapter: str = "") -> None:
    """Show the points so far, of one chapter (``"multi_head"``) or of all you have checked in."""
    found = {chapter_of(name) for name in _verdicts}
    chapters = [chapter] if chapter else [x for x in CHAPTERS if x in found]
    rows = [load(name) for x in chapters for name in names(x)]
    if not rows:
        print("Nothing was checked yet. Run a check(...) cell first.")
        return
    width = max(len(e.name) for e in rows)
    earned = 0
    for exercise in rows:
        verdict = _verdicts.get(exercise.name)
        earned += verdict.points if verdict else 0
        points = f"{verdict.points if verdict else 0} of {exercise.out_of}"
        print(f"{exercise.name:{width}}  {points}  {verdict.status if verdict else 'not checked'}")
    print(f"{'total':{width}}  {earned} of {sum(e.out_of for e in rows)}")


def most_likely(verdict: Verdict) -> str:
    """The diagnosis as a sentence; '' where there is none."""
    return f"Most likely: {verdict.diagnosis}" if verdict.diagnosis else ""


def shown(verdict: Verdict) -> list[str]:
    """The lines below a verdict's headline, for the student."""
    return [*filter(None, [most_likely(verdict)]), *details(verdict)]


def details(verdict: Verdict) -> list[str]:
    """The first findings; for a stub, the task first."""
    lines = list(verdict.findings[:SHOWN_FINDINGS])
    if verdict.status == "not attempted":
        title = load(verdict.name).title
        title += "" if title.endswith("?") else "."
        lines.insert(0, f"{title} Replace the stub, then run this cell again.")
    if len(verdict.findings) > SHOWN_FINDINGS:
        lines.append(f"... and {len(verdict.findings) - SHOWN_FINDINGS} more")
    return lines


def _show(verdict: Verdict) -> None:
    lines = shown(verdict)
    text = "\n  ".join([verdict.headline, *lines])
    if "IPython" not in sys.modules or not _in_notebook():
        print(text)
        return
    from IPython.display import display

    rest = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    colour = COLOURS.get(verdict.status, GREY)
    card = (
        f'<div style="border-left: 4px solid {colour}; padding-left: 0.8em">'
        f"<b>{html.escape(verdict.headline)}</b>{f'<ul>{rest}</ul>' if rest else ''}</div>"
    )
    metadata = {"attncourse": asdict(verdict) | {"findings": list(verdict.findings)}}
    display({"text/plain": text, "text/html": card}, raw=True, metadata=metadata)


def _in_notebook() -> bool:
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")
