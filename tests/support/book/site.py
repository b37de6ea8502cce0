"""The built site, for the tests that look at it."""

import gzip
import importlib.util
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HTML = ROOT / "_build" / "html"
RAW_LIMIT, GZIP_LIMIT = 2_500_000, 900_000
LOADING_RELS = {"stylesheet", "icon", "shortcut", "preload", "modulepreload", "prefetch", "manifest"}  # fmt: skip
LOADING_TAGS = {"script", "img", "source", "iframe", "embed", "video", "audio", "track"}
NOT_ICONS = {"fa-solid", "fa-brands", "fa-regular", "fa-lg", "fa-fw"}


def built(page: str = "index.html") -> Path:
    """A page of the site."""
    if not (HTML / page).exists():
        pytest.fail("there is no built site: run `make book` first", pytrace=False)
    return HTML / page


class Page(HTMLParser):
    """What a page offers (ids), points to (links), loads, and shows (images)."""

    def __init__(self, path):
        super().__init__()
        self.path, self.ids, self.icons = path, set(), set()
        self.links, self.loads, self.images = [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        loads = tag in LOADING_TAGS or LOADING_RELS & set((attrs.get("rel") or "").split())
        for name in ("href", "src", "data", "poster"):
            if attrs.get(name) and not (tag == "object" and name == "href"):
                (self.loads if loads else self.links).append(attrs[name])
        for candidate in (attrs.get("srcset") or "").split(","):
            if candidate.strip():
                self.loads.append(candidate.split()[0])
        classes = set((attrs.get("class") or "").split())
        if classes & {"fa", "fas", "fab", "fa-solid", "fa-brands", "fa-regular"}:
            self.icons |= {name for name in classes if name.startswith("fa-")} - NOT_ICONS
        if tag == "img":
            self.images.append((attrs.get("src", ""), attrs.get("alt")))


@cache
def weight(path):
    """Bytes of a file as it lies on the disk, and as a server sends it."""
    raw = path.read_bytes()
    text = path.suffix in {".html", ".css", ".js", ".svg", ".json"}
    return len(raw), len(gzip.compress(raw, 6)) if text else len(raw)


def extension(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "chapters" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
