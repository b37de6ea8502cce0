"""Write what follows from the version and the address: the first cell of the notebooks, which installs the course where
it is missing, such as on Colab; the line of the README that installs it; the version of the citation.

    python tools/bootstrap.py                                             or: make bootstrap
    python tools/bootstrap.py --url https://github.com/you/attncourse     or: make repository URL=...

A notebook installs the version that it was written for, so that an old one keeps working. The address comes from
`_config.yml`, the version from `attncourse/__init__.py`, and `pyproject.toml` says whether the version is published.
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ("chapters/*.ipynb", "exercises/*.ipynb", "exercises/solutions/*.ipynb")
ADDRESS = re.compile(r"https://[\w.-]+(/[\w.-]+)+")
URL_LINE = re.compile(r"(?m)(^repository:\n(?:[ ]+.*\n)*?[ ]+url: *)\S+$")
# What is replaced in these files stands in each once.
INSTALLED = re.compile(r'(?<=pip install ")[^"]+(?:@v|==)[^"]+(?=")')
CITED = re.compile(r"(?m)(?<=^version: )\S+$")
CELL = """\
# Installs the course where it is missing, as on Colab; elsewhere this cell does nothing.
# It is the version of the course that this notebook was written for.
import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("attncourse") is None:
    source = os.environ.get(
        "ATTNCOURSE_SOURCE", "{source}"
    )
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", source], check=True
    )
    importlib.invalidate_caches()"""


def version(root: Path) -> str:
    """The version of the package, read without importing it."""
    text = (root / "attncourse" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'(?m)^__version__ = "([^"]+)"', text)[1]


def source(root: Path) -> str:
    """What pip installs: the released version, of the package index or by its tag in the repository."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    if settings["tool"]["attncourse"]["published"]:
        return f"{settings['project']['name']}=={version(root)}"
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    return f"git+{config['repository']['url']}@v{version(root)}"


def rendered(root: Path = ROOT) -> str:
    """The source of the cell."""
    return CELL.format(source=source(root))


def fill(notebook, cell: str) -> int:
    """Put the source into the cells with the tag "bootstrap"; how many there are."""
    tagged = [x for x in notebook["cells"] if "bootstrap" in x["metadata"].get("tags", [])]
    for found in tagged:
        found["source"] = cell
    return len(tagged)


def write(path: Path, cell: str) -> bool:
    """Write the cell into a notebook, whose other lines stay as they are; was there anything to change?

    Raises:
        ValueError: the notebook has not exactly one cell for it.
    """
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    if (count := fill(notebook, cell.splitlines(keepends=True))) != 1:
        raise ValueError(
            f'{path} needs one cell with the tag "bootstrap", below its title; it has {count}'
        )
    changed = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    if changed != text:
        path.write_text(changed, encoding="utf-8")
    return changed != text


def substitute(path: Path, pattern: re.Pattern, text: str) -> bool:
    """Put the text where the pattern stands; was there anything to change?

    Raises:
        ValueError: it stands there not exactly once.
    """
    before = path.read_text(encoding="utf-8")
    after, places = pattern.subn(lambda _: text, before)
    if places != 1:
        raise ValueError(f"{path} needs {pattern.pattern} once; it has it {places} times")
    if after != before:
        path.write_text(after, encoding="utf-8")
    return after != before


def move(root: Path, url: str) -> None:
    """Make this the address of the repository.

    Raises:
        ValueError: it is no address, or `_config.yml` has no place for it.
    """
    url = url.rstrip("/").removesuffix(".git")
    if not ADDRESS.fullmatch(url):
        raise ValueError(
            f"--url needs an address as https://github.com/you/attncourse; got {url!r}"
        )
    path = root / "_config.yml"
    text, places = URL_LINE.subn(lambda found: found[1] + url, path.read_text(encoding="utf-8"))
    if places != 1:
        raise ValueError("_config.yml needs one line `  url: ...` below `repository:`; add it")
    path.write_text(text, encoding="utf-8")


def main(root: Path, url: str) -> int:
    try:
        if url:
            move(root, url)
        cell = rendered(root)
        paths = [path for pattern in NOTEBOOKS for path in sorted(root.glob(pattern))]
        written = [path for path in paths if write(path, cell)]
        copies = (("README.md", INSTALLED, source), ("CITATION.cff", CITED, version))
        written += [
            root / x for x, where, what in copies if substitute(root / x, where, what(root))
        ]
    except ValueError as error:
        print(f"{error}.", file=sys.stderr)
        return 1
    for path in written:
        print(f"{path.relative_to(root)}: written")
    print(f"All {len(paths)} notebooks install {source(root)}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default="", help="the new address of the repository")
    parser.add_argument("--root", type=Path, default=ROOT)
    options = parser.parse_args()
    sys.exit(main(options.root, options.url))
