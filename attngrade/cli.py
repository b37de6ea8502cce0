"""``attngrade submissions/ --out results/``: grade a class that need not be trusted.

The notebooks of each student run in a sandbox that has no right answers. A run may be killed at any moment;
the same command continues it.
"""

import argparse
import os
import re
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from attncourse.grading.exercises import CHAPTERS
from attngrade.settings import NoSandbox, Settings, Stopped, fingerprint, secret_in

if TYPE_CHECKING:
    from attngrade.table import Table

GRADED, NOTHING, NO_SANDBOX, INTERRUPTED = 0, 2, 3, 130
DESCRIPTION = (
    "Grade a folder of notebooks: one a student (anna.ipynb), or one folder a student. Their code "
    "runs in sandboxes. A run that was stopped or killed goes on when the same command is given again."
)
STOPPED = threading.Event()
AGAIN = "What was graded is kept: give the same command again to go on."


def command() -> NoReturn:
    """Entry point of ``attngrade``: exits with the code of `main`, without waiting for threads that still grade."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), _stop)
    code = main()
    sys.stdout.flush()
    os._exit(code)


def _stop(*signal_and_frame) -> None:
    # An exception raised inside `__del__` is swallowed, so set the event too; the pipeline polls it.
    STOPPED.set()
    raise KeyboardInterrupt


def main(arguments: list[str] | None = None) -> int:
    """Grade a class.

    Returns: 0 when the class is graded, 2 when nothing could be graded, 3 when a sandbox was demanded and
    cannot be had, 130 when the run was interrupted.
    """
    options = parser().parse_args(arguments)
    try:
        return _grade(options)
    except ModuleNotFoundError as error:
        return _refuse(f"This needs {error.name}; install it with: pip install 'attncourse[class]'")
    except (ValueError, Stopped) as error:
        return _refuse(str(error))
    except NoSandbox as error:
        why = f"A sandbox is demanded and not in force here: bubblewrap is {error}"
        return _refuse(why, NO_SANDBOX)
    except OSError as error:
        place = f"{os.fspath(error.filename)}: " if error.filename else ""
        return _refuse(f"{place}{error.strerror or error}. {AGAIN}")
    except KeyboardInterrupt:
        return _refuse(f"Stopped. {AGAIN}", INTERRUPTED)


def parser() -> argparse.ArgumentParser:
    """The options of the command."""
    parser = argparse.ArgumentParser(prog="attngrade", description=DESCRIPTION)
    add = parser.add_argument
    add("submissions", type=Path, help="the folder that was handed in")
    add("--out", type=Path, required=True, metavar="FOLDER", help="where the results go")
    add("--workers", type=_count, metavar="N", help="students at once; default: one a core")
    add("--scheduler", metavar="ADDRESS", help="grade on a cluster of dask: tcp://10.0.0.1:8786")
    limit = f"of each cell and exercise ({Settings.seconds})"
    add("--seconds", type=_count, default=Settings.seconds, metavar="S", help=limit)
    memory = f"of each student ({Settings.memory})"
    add("--memory", type=_count, default=Settings.memory, metavar="MIB", help=memory)
    secret = "what the inputs are drawn from; made if it is not there (default: secret, in --out)"
    add("--secret-file", type=Path, metavar="FILE", help=secret)
    demanded = "run nothing where bubblewrap is not in force"
    add("--require-sandbox", action="store_true", help=demanded)
    only = "only these chapters"
    add("--chapters", type=_chapters, default=(), metavar="masks,latent", help=only)
    return parser


def _grade(options: argparse.Namespace) -> int:
    from attngrade.journal import locked
    from attngrade.pipeline import grade_class
    from attngrade.pool import cluster, local
    from attngrade.sandbox.bwrap import refuse_private
    from attngrade.submissions import handed_in

    folder, out = options.submissions, options.out
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out needs a folder")
    secret = options.secret_file or out / "secret"
    found = handed_in(folder, out, secret)
    refuse_private(folder, out, secret)
    out.mkdir(parents=True, exist_ok=True)
    students = len({student for student, _ in found})
    here = partial(local, min(options.workers or os.cpu_count() or 1, students))
    workers = partial(cluster, options.scheduler) if options.scheduler else here
    how = options.seconds, options.memory, options.chapters, options.require_sandbox, fingerprint()
    with locked(out):
        table = grade_class(found, folder, out, Settings(secret_in(secret), *how), workers, STOPPED)
    print("\n".join(_summary(table, out)))
    if not any(row.verdicts for row in table.rows):
        return _refuse("No submission could be graded; the table says why.")
    return GRADED


def _summary(table: "Table", out: Path) -> list[str]:
    run, students = table.run, len(table.rows)
    whole = [row.points for row in table.rows if row.complete]
    mean = f", {sum(whole) / len(whole):.1f} of {table.out_of} points on average" if whole else ""
    failed = f"{students - len(whole)} not graded, as the grader failed there: give the same command again."
    weak = [f"{name}: {state}" for name, state in run.protections if state != "in force"]
    verdict = "official" if run.official else f"unofficial: {weak[0]}"
    return [
        f"{students} student{'s' * (students != 1)}{mean}.",
        f"The table is {out / 'scores.csv'}, the pages start at {out / 'feedback' / 'index.html'}.",
        *(
            f"{x.name} is left out: {x.findings[0]}."
            for e in table.exercises
            if (x := e.left_out())
        ),
        *(f"In force: {name}." for name, state in run.protections if state == "in force"),
        *(f"Not in force: {name}." for name in weak),
        *run.problems,
        *([failed] if len(whole) < students else []),
        *([f"These scores are {verdict}."] if run.protections else []),
    ]


def _refuse(why: str, code: int = NOTHING) -> int:
    print(f"attngrade: {why.rstrip('.')}.", file=sys.stderr)
    return code


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _chapters(text: str) -> tuple[str, ...]:
    asked = {part.strip() for part in text.split(",") if part.strip()}
    if not asked or asked - set(CHAPTERS):
        known = ", ".join(CHAPTERS)
        raise argparse.ArgumentTypeError(
            f"{text!r} names no chapters with exercises; they are {known}"
        )
    return tuple(chapter for chapter in CHAPTERS if chapter in asked)
