"""Submissions in a folder: found and read as bytes, not interpreted."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from attngrade import File

MEGABYTE = 10**6
LARGEST_FILE = 20 * MEGABYTE
_LEFT_OUT = "__MACOSX"
_EXPECTED = "expected one notebook a student (anna.ipynb) or one folder a student"


def handed_in(folder: Path, *own: Path) -> list[tuple[str, Path]]:
    """Pairs of student and path for everything handed in, sorted; ``own`` paths are left out.

    ``anna.ipynb`` is anna's, and so is every notebook in the folder ``anna``. Other files are listed, too,
    so that their student gets a row, unless they lie beside a notebook in a student's folder. Hidden files
    are left out. Links are listed and not followed.

    Raises:
        ValueError: the folder is missing or empty, or results would go there.
    """
    ours = set()
    for place in (Path.resolve, os.path.abspath):
        root = Path(place(folder))
        for one in (Path(place(one)) for one in own):
            if root == one:
                raise ValueError(
                    f"{shown(folder)} has the submissions; results need another folder"
                )
            if root in one.parents:
                ours.add(folder / one.relative_to(root))
    found = [(who, path) for who, path in _all_in(folder) if not ours & {path, *path.parents}]
    if not found:
        raise ValueError(f"the folder {shown(folder)} has nothing to grade in it; {_EXPECTED}")
    return sorted(found, key=lambda pair: (os.fsencode(pair[0]), os.fsencode(pair[1])))


def contents(path: Path, root: Path) -> File:
    """A file with its bytes, or with a sentence on why they cannot be read.

    Args:
        path: path of the file, below ``root``.
        root: the folder of all submissions; links between ``root`` and the file are not followed.
    """
    name = path.relative_to(root).as_posix()
    try:
        data = _bytes_of(path, root)
    except OSError as error:
        reason = error.strerror or "the system gives no reason"
        return File(name, problem=f"The file cannot be read: {reason}.")
    except ValueError as refused:
        return File(name, problem=str(refused))
    return File(name, hashlib.sha256(data).hexdigest(), data)


def alike(handed_in: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """By file name, a note for each file that another student handed in as well, white space apart.

    Args:
        handed_in: triples of student, name of the file, and `Notebook.likeness`.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    for student, file, likeness in handed_in:
        if likeness:
            groups.setdefault(likeness, []).append((student, file))
    notes = {}
    for group in groups.values():
        students = {student for student, _ in group}
        for student, file in group:
            others = [shown(other) for other in sorted(students - {student})]
            if others:
                more = f" and {len(others) - 3} more" if len(others) > 3 else ""
                notes[file] = f"The same work was handed in by {', '.join(others[:3])}{more}."
    return notes


def shown(name: str | Path) -> str:
    """A file name as text that can be encoded, whatever bytes it has."""
    return os.fsencode(name).decode("utf-8", "replace")


def _all_in(folder: Path) -> Iterator[tuple[str, Path]]:
    try:
        entries = _visible(folder)
    except OSError as error:
        why = f"the folder {shown(folder)} cannot be read: {error.strerror}"
        raise ValueError(f"{why}; {_EXPECTED}") from None
    for entry in entries:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False):
            found = list(_below(path))
            notebooks = [
                x for x in found if x.suffix.lower() == ".ipynb" or x.is_symlink() or x.is_dir()
            ]
            yield from ((entry.name, x) for x in notebooks or found or [path])
        else:
            yield path.stem, path


def _below(folder: Path) -> Iterator[Path]:
    """All files of one student, and the folders that cannot be read, so that reading them reports the error."""
    folders = [folder]
    while folders:
        inside = folders.pop()
        try:
            entries = _visible(inside)
        except OSError:
            yield inside
            continue
        folders += [Path(e.path) for e in entries if e.is_dir(follow_symlinks=False)]
        yield from (Path(e.path) for e in entries if not e.is_dir(follow_symlinks=False))


def _visible(folder: Path) -> list[os.DirEntry]:
    with os.scandir(folder) as entries:
        return [e for e in entries if not e.name.startswith(".") and e.name != _LEFT_OUT]


def _bytes_of(path: Path, root: Path) -> bytes:
    for part in (path, *path.parents[: len(path.relative_to(root).parts) - 1]):
        if part.is_symlink():
            raise ValueError(f"{shown(part.name)} is a link, and links are not followed.")
    status = path.lstat()  # before opening: to open a device or a pipe may have effects
    if stat.S_ISDIR(status.st_mode):
        os.listdir(path)  # raises if the folder may not be read
        raise ValueError("The folder has no file in it that can be graded.")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("It is a pipe, a socket or a device and was not opened; expected a file.")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        size = max(len(data), path.lstat().st_size) / MEGABYTE
        raise ValueError(f"It has {size:,.1f} MB; a notebook of at most 20 MB was expected.")
    return data
