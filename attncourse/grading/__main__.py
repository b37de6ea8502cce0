"""``python -m attncourse.grading exercises/03_multi_head.ipynb``: the scores of one notebook."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from attncourse.grading import CELL_SECONDS
from attncourse.grading.verdict import Verdict


def table(score) -> str:
    """The score as text, one line per exercise."""
    if not score.verdicts:
        return "\n".join(f"note: {problem}" for problem in score.problems)
    width = max(len(v.name) for v in score.verdicts)
    lines = [f"{v.name:{width}}  {v.points} of {v.out_of}  {comment(v)}" for v in score.verdicts]
    lines += [f"note: {problem}" for problem in score.problems]
    return "\n".join([*lines, f"{'total':{width}}  {score.points} of {score.out_of}"])


def comment(verdict: Verdict) -> str:
    """The status and its reason, in one line."""
    reason = verdict.diagnosis or (verdict.findings[0] if verdict.findings else "")
    return f"{verdict.status}{': ' if reason else ''}{reason}"


def as_json(score) -> str:
    """The score with every finding."""
    whole = {"notebook": score.path.name, "points": score.points, "out_of": score.out_of}
    whole |= {"verdicts": [asdict(v) for v in score.verdicts], "problems": score.problems}
    return json.dumps(whole, indent=1)


def main(arguments: list[str] | None = None) -> int:
    """Grade one notebook; returns 0 at full score, 1 below it, 2 where nothing could be graded."""
    parser = argparse.ArgumentParser(
        prog="python -m attncourse.grading",
        description="Run an exercise notebook in a fresh kernel and print its score. The score is "
        "for self-study: the notebook runs with your rights, so grade only what you trust.",
    )
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the score as JSON")
    limit = f"limit of one cell ({CELL_SECONDS})"
    parser.add_argument("--cell-seconds", type=float, default=CELL_SECONDS, help=limit)
    options = parser.parse_args(arguments)
    try:
        from attncourse.grading.run_notebook import grade_notebook
    except ModuleNotFoundError as error:
        print(f"grading a notebook needs {error.name}: pip install 'attncourse[grade]'")
        return 2
    score = grade_notebook(options.notebook, options.cell_seconds)
    print(table(score))
    if options.json:
        options.json.write_text(as_json(score), encoding="utf-8")
    if not score.verdicts:
        return 2
    return 0 if score.full else 1


if __name__ == "__main__":
    sys.exit(main())
