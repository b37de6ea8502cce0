"""What students hand in: found in a folder, read without running it, healed where it was damaged."""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from attncourse.grading.exercises import CHAPTERS, chapter_of, names
from attngrade import Cell, Submission
from attngrade.notebook import Unreadable, pieces_of
from attngrade.repair import Piece, answers, grade_ids, heal

MEGABYTE = 10**6
LARGEST_FILE = 20 * MEGABYTE
LARGEST_DIGEST = 1000 * MEGABYTE
MOST_PROBLEMS = 20
# An answer this short may be the same by chance: characters, white space not counted.
BY_CHANCE = 200

_LEFT_OUT = "__MACOSX"
_NOTHING = hashlib.sha256(b"").hexdigest()
_TOO_LARGE = "It has {:,.1f} MB; a notebook of at most 20 MB was expected."


def collect(folder: Path) -> list[tuple[str, Path]]:
    """The student and the path of everything that was handed in, sorted.

    ``anna.ipynb`` is anna's, and so is every notebook in the folder ``anna``. What is no notebook
    is listed too, so that it gets its row; beside a notebook in a student's folder it is not.
    Hidden files are left out. Links are listed and not followed.

    Raises:
        ValueError: there is no such folder, or nothing in it.
    """
    how = "expected one notebook a student (anna.ipynb) or one folder a student"
    try:
        entries = list(_visible(folder))
    except FileNotFoundError:
        raise ValueError(f"the folder {shown(folder)} does not exist; {how}") from None
    except NotADirectoryError:
        raise ValueError(f"{shown(folder)} is no folder; {how}") from None
    except OSError as error:
        raise ValueError(f"{shown(folder)} cannot be read: {error.strerror}") from None
    if not entries:
        raise ValueError(f"the folder {shown(folder)} has nothing to grade in it; {how}")
    found = []
    for entry in entries:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            found += [(entry.name, inside) for inside in _of_one_student(path)]
        else:
            found.append((path.stem, path))
    return sorted(found, key=lambda pair: (os.fsencode(pair[0]), os.fsencode(pair[1])))


def read(student: str, path: Path, root: Path) -> Submission:
    """One submission, read and healed, not run.

    Args:
        student: who handed it in.
        path: the file, below ``root``.
        root: the folder of all submissions; a link on the way from it to the file is not followed.

    Returns: a `Submission`. Whatever is wrong with the file stands in its ``problems``.
    """
    digest, data, why = contents(path, root)
    if data is None:
        return Submission(student, path, digest, problems=(why,))
    return understand(student, path, digest, data)


def contents(path: Path, root: Path) -> tuple[str, bytes | None, str]:
    """The digest of a file and its bytes; or None for the bytes, and a sentence that says why.

    Nothing is done with the bytes yet, so nothing in them can do harm. The digest is empty where the
    file could not be read; it is that of all bytes where there are too many of them.
    """
    try:
        _refuse_links(path, root)
        digest, data = _bytes_of(path)
        why = _TOO_LARGE.format(path.lstat().st_size / MEGABYTE) if data is None else ""
        return digest, data, why
    except Unreadable as error:
        return "", None, str(error)
    except OSError as error:
        reason = error.strerror or "the system gives no reason"
        return "", None, f"The file cannot be read: {reason}."


def understand(student: str, path: Path, digest: str, data: bytes) -> Submission:
    """The submission in these bytes, healed; whatever is wrong stands in its ``problems``."""
    problems: list[str] = []
    try:
        pieces = pieces_of(data, problems)
        healed = heal(pieces, problems)
        chapters = _chapters(healed, pieces)
        if not chapters:
            problems.append("It has no check(...) cell and no answer of this course.")
    except Unreadable as error:
        return Submission(student, path, digest, problems=(*problems, str(error)))
    except Exception as error:  # one strange file must not stop a class
        why = f"Reading it failed unexpectedly, with {type(error).__name__}; please look at it yourself."
        return Submission(student, path, digest, problems=(*problems, why))
    if len(problems) > MOST_PROBLEMS:
        more = len(problems) - MOST_PROBLEMS
        problems = [*problems[:MOST_PROBLEMS], f"There are {more} more problems of this kind."]
    cells = tuple(Cell(piece.number, piece.source) for piece in healed)
    return Submission(student, path, digest, cells, chapters, tuple(problems))


def duplicates(submissions: Iterable[Submission]) -> dict[Path, str]:
    """A note for each submission that another student handed in as well, white space apart.

    Notebooks with hardly an answer in them, as they were shipped or with a number filled in, are
    alike by chance and get none.
    """
    return alike((one.student, one.path, likeness(one)) for one in submissions)


def alike(handed_in: Iterable[tuple[str, Path | str, str]]) -> dict[Path | str, str]:
    """The notes of `duplicates`, for triples of student, file and `likeness`; by file."""
    groups: dict[str, list[tuple[str, Path | str]]] = {}
    for student, file, key in handed_in:
        if key:
            groups.setdefault(key, []).append((student, file))
    notes = {}
    for group in groups.values():
        students = {student for student, _ in group}
        for student, file in group:
            others = sorted(students - {student})
            if others:
                more = f" and {len(others) - 3} more" if len(others) > 3 else ""
                listed = ", ".join(map(shown, others[:3]))
                notes[file] = f"The same work was handed in by {listed}{more}."
    return notes


def likeness(submission: Submission) -> str:
    """The same for submissions that are the same work; empty where that may be chance."""
    if not submission.cells:
        return "" if submission.digest in ("", _NOTHING) else submission.digest
    pieces = [Piece(cell.number, "code", cell.source) for cell in submission.cells]
    typed = sum(_length(piece) for piece in pieces)
    code = "\n".join("".join(piece.source.split()) for piece in pieces)
    return hashlib.sha256(code.encode()).hexdigest() if typed > BY_CHANCE else ""


def shown(name: str | Path) -> str:
    """A file name as text that can be written anywhere, whatever bytes it has."""
    return os.fsencode(name).decode("utf-8", "replace")


def _visible(folder: Path) -> Iterator[os.DirEntry]:
    with os.scandir(folder) as entries:
        yield from (e for e in entries if not e.name.startswith(".") and e.name != _LEFT_OUT)


def _of_one_student(folder: Path) -> list[Path]:
    notebooks, others, folders = [], [], [folder]
    while folders:
        inside = folders.pop()
        try:
            entries = list(_visible(inside))
        except OSError:
            notebooks.append(inside)  # reading it again will say why
            continue
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_symlink() or path.suffix.lower() == ".ipynb":
                notebooks.append(path)
            else:
                others.append(path)
    return notebooks or others or [folder]


def _refuse_links(path: Path, root: Path) -> None:
    parts = [path, *path.parents]
    for part in parts[: parts.index(root) if root in parts else 1]:
        if part.is_symlink():
            raise Unreadable(f"{shown(part.name)} is a link, and links are not followed.")


def _bytes_of(path: Path) -> tuple[str, bytes | None]:
    """The digest of the file and what is in it; None where it is too large for a notebook."""
    status = path.lstat()  # before it is opened: opening a device or a pipe may do something
    if stat.S_ISDIR(status.st_mode):
        os.listdir(path)  # raises if it may not be read
        raise Unreadable("The folder has no file in it that can be graded.")
    if not stat.S_ISREG(status.st_mode):
        raise Unreadable("It is a pipe, a socket or a device and was not opened; expected a file.")
    if status.st_size > LARGEST_DIGEST:
        raise Unreadable(_TOO_LARGE.format(status.st_size / MEGABYTE))
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        digest, data = hashlib.sha256(), file.read(LARGEST_FILE + 1)
        digest.update(data)
        left = LARGEST_DIGEST  # it may be growing meanwhile
        while left > 0 and (chunk := file.read(MEGABYTE)):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest(), data if len(data) <= LARGEST_FILE else None


def _chapters(healed: list[Piece], pieces: list[Piece]) -> tuple[str, ...]:
    """By the checks and nbgrader's ids; where both are gone, by answers of one chapter alone."""
    asked = {name for piece in healed for name in piece.checks} & set(names())
    asked |= {grade_ids()[p.grade_id] for p in pieces if p.grade_id in grade_ids()}
    found = set(map(chapter_of, asked))
    if not found:
        bound = {name for piece in healed for name in piece.bound.keys() & answers().keys()}
        votes = Counter(next(iter(answers()[x])) for x in bound if len(answers()[x]) == 1)
        found = {chapter for chapter, n in votes.items() if n == max(votes.values())}
    return tuple(chapter for chapter in CHAPTERS if chapter in found)


def _length(piece: Piece) -> int:
    """The characters of the functions and classes in it that are answers."""
    lines = piece.source.split("\n")
    given = (piece.bound[name] for name in piece.answers())
    code = ["".join(lines[x.lineno - 1 : x.end_lineno]) for x in given if hasattr(x, "body")]
    return sum(len("".join(text.split())) for text in code)
