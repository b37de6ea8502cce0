"""The built site: every link resolves, nothing comes from outside, pages are light, figures speak."""

import gzip
import importlib.util
import os
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from fontTools.ttLib import TTFont

ROOT = Path(__file__).parents[2]
HTML = ROOT / "_build" / "html"
CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text())
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())

RAW_LIMIT, GZIP_LIMIT = 2_500_000, 900_000
LOADING_RELS = {
    "stylesheet",
    "icon",
    "shortcut",
    "preload",
    "modulepreload",
    "manifest",
    "prefetch",
}
LOADING_TAGS = {"script", "img", "source", "iframe", "embed", "video", "audio", "track"}
NOT_ICONS = {"fa-solid", "fa-brands", "fa-regular", "fa-lg", "fa-fw"}
CSS_URL = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


def depends(item) -> list[Path]:
    """The built site, and what it was built from."""
    return [HTML, ROOT]


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


@pytest.fixture(scope="module")
def pages():
    if not (HTML / "index.html").exists():
        pytest.fail("there is no built site: run `make book` first", pytrace=False)
    found = (path for path in sorted(HTML.rglob("*.html")) if HTML / "_static" not in path.parents)
    return {path: Page(path) for path in found}


def is_external(url):
    return bool(urlsplit(url).netloc) or urlsplit(url).scheme in ("http", "https", "ftp")


def is_local(url):
    return not is_external(url) and not urlsplit(url).scheme


def target(base, url):
    path = unquote(urlsplit(url).path)
    found = (HTML / path.lstrip("/") if path.startswith("/") else base.parent / path).resolve()
    if not path:
        return base
    return found / "index.html" if found.is_dir() else found


def css_urls(path):
    for match in CSS_URL.finditer(path.read_text(encoding="utf-8")):
        url = (match[1] or match[2]).strip()
        if not url.startswith(("data:", "#")):
            yield url


@cache
def weight(path):
    """Bytes of a file as it lies on the disk, and as a server sends it."""
    raw = path.read_bytes()
    text = path.suffix in {".html", ".css", ".js", ".svg", ".json"}
    return len(raw), len(gzip.compress(raw, 6)) if text else len(raw)


def loaded_files(page):
    """What the page names: a lower bound, as only a browser knows which fonts a page needs."""
    return {page.path} | {target(page.path, url) for url in page.loads if is_local(url)}


def test_every_link_resolves(pages):
    broken = []
    for path, page in pages.items():
        for url in filter(is_local, page.links + page.loads):
            found, fragment = target(path, url), unquote(urlsplit(url).fragment)
            if not found.is_file():
                broken.append(f"{path.relative_to(HTML)}: {url} does not exist")
            elif fragment and found in pages and fragment not in pages[found].ids:
                broken.append(f"{path.relative_to(HTML)}: {url} has no such anchor")
    assert not broken, "\n".join(broken)


def test_nothing_is_loaded_from_outside(pages):
    outside = [
        f"{path.relative_to(HTML)}: {url}"
        for path, page in pages.items()
        for url in page.loads
        if is_external(url)
    ]
    for sheet in HTML.rglob("*.css"):
        outside += [
            f"{sheet.relative_to(HTML)}: {url}" for url in css_urls(sheet) if is_external(url)
        ]
    assert not outside, "\n".join(outside)


def test_pages_are_light(pages):
    heavy = []
    for path, page in pages.items():
        raw, gzipped = map(sum, zip(*map(weight, loaded_files(page)), strict=True))
        if raw > RAW_LIMIT or gzipped > GZIP_LIMIT:
            heavy.append(
                f"{path.relative_to(HTML)}: {raw / 1e6:.2f} MB, gzipped {gzipped / 1e6:.2f} MB"
            )
    assert not heavy, "\n".join(heavy)


def test_every_image_has_a_text(pages):
    silent = []
    for path, page in pages.items():
        for source, alt in page.images:
            is_path = re.search(r"_images/|_build/|\.(png|svg|jpe?g|gif|webp)$", alt or "")
            if not (alt or "").strip() or is_path or alt.startswith("<"):
                silent.append(f"{path.relative_to(HTML)}: {source} has alt {alt!r}")
    assert not silent, "\n".join(silent)


def toc_files(node):
    if isinstance(node, dict):
        yield from [node[key] for key in ("root", "file") if key in node]
        for value in node.values():
            yield from toc_files(value)
    elif isinstance(node, list):
        for value in node:
            yield from toc_files(value)


def test_every_page_of_the_toc_was_built(pages):
    missing = [name for name in toc_files(TOC) if HTML / f"{name}.html" not in pages]
    assert not missing, f"in _toc.yml, but not on the site: {missing}"


def test_colab_opens_the_notebook_of_this_repository(pages):
    repository = CONFIG["repository"]
    url, branch = extension("site_setup").repository(
        os.environ, repository["url"], repository["branch"]
    )
    prefix = url.replace("https://github.com/", "https://colab.research.google.com/github/")
    for name in toc_files(TOC):
        links = {url for url in pages[HTML / f"{name}.html"].links if "colab." in url}
        notebook = (ROOT / f"{name}.ipynb").exists()
        assert links == ({f"{prefix}/blob/{branch}/{name}.ipynb"} if notebook else set()), name


def test_every_module_has_an_api_section():
    pages = "".join(path.read_text() for path in (ROOT / "chapters").glob("api*.md"))
    files = [
        x for part in ("", "lab/", "show/") for x in (ROOT / "attncourse").glob(f"{part}[!_]*.py")
    ]
    modules = {".".join(x.relative_to(ROOT / "attncourse").with_suffix("").parts) for x in files}
    missing = {name for name in modules if f"automodule:: attncourse.{name}\n" not in pages}
    assert not missing, f"add to a page chapters/api_*.md: {sorted(missing)}"


def test_every_icon_has_a_glyph(pages):
    css = (HTML / "_static/styles/pydata-sphinx-theme.css").read_text(encoding="utf-8")
    glyphs = set()
    for path in HTML.glob("_static/vendor/fontawesome/webfonts/*.ttf"):
        with TTFont(path) as font:
            glyphs |= set(font.getBestCmap())
    icons = {name for page in pages.values() for name in page.icons}
    assert icons, "no icons were found, so this test looks in the wrong place"
    rules = {name: re.search(rf"\.{name}:before[^{{]*{{content:\"\\(\w+)", css) for name in icons}
    empty = [name for name, rule in rules.items() if not rule or int(rule[1], 16) not in glyphs]
    assert not empty, f"icons that would be drawn as empty boxes: {empty}"


# The extensions of the site, without a site.


def extension(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "chapters" / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("environ", "url", "branch", "baseurl"),
    [
        ({}, "https://github.com/a/course", "main", "unchanged"),
        (
            {"GITHUB_REPOSITORY": "Alice/fork", "GITHUB_REF": "refs/heads/fix/masks"},
            "https://github.com/Alice/fork",
            "fix/masks",
            "https://alice.github.io/fork/",
        ),
        (
            {"GITHUB_REPOSITORY": "Alice/alice.github.io", "GITHUB_REF": "refs/pull/7/merge"},
            "https://github.com/Alice/alice.github.io",
            "main",
            "https://alice.github.io/",
        ),
    ],
    ids=["no fork", "branch of a fork", "pull request"],
)
def test_links_follow_the_fork(monkeypatch, environ, url, branch, baseurl):
    for name in ("GITHUB_REPOSITORY", "GITHUB_REF", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    options = {"repository_url": "https://github.com/a/course", "repository_branch": "main"}
    config = SimpleNamespace(html_theme_options=options, html_baseurl="unchanged")
    extension("site_setup").set_repository(None, config)
    assert options == {"repository_url": url, "repository_branch": branch}
    assert config.html_baseurl == baseurl


def test_measured_table_is_accessible_and_escaped():
    html = extension("measured").table_html(
        {
            "caption": "a < b",
            "note": "",
            "columns": ["case", "time"],
            "rows": [["x", 0.12346], ["y", True]],
        }
    )
    assert "<caption><span>a &lt; b</span></caption>" in html
    assert '<th scope="col">time</th>' in html
    assert '<th scope="row">x</th><td class=number>0.1235</td>' in html
    assert "<td>yes</td>" in html


def test_measured_table_refuses_ragged_rows():
    data = {"caption": "", "columns": ["case", "time"], "rows": [["x", 1, 2]]}
    with pytest.raises(ValueError, match="3 cells under 2 columns"):
        extension("measured").table_html(data)


def test_docstrings_become_readable_pages():
    docstring = [
        "Lower a score by |i - j|.",
        "",
        "    score -> score - |i - j|",
        "",
        "Args:",
        "    slope: ``|x|`` per step.",
        "",
        "Cost: n m",
        "    additions.",
        "Source: press2022, section 3. Chapter: none.",
        "Chapter: 02_masks, 09_later.",
    ]
    text = "\n".join(extension("docstrings").rewrite(docstring, {"chapters/02_masks"}))
    assert r"Lower a score by \|i - j\|." in text
    assert ".. code-block:: text\n\n        score -> score - |i - j|" in text
    assert "    slope: ``|x|`` per step." in text
    assert "**Cost.** n m\nadditions." in text
    assert "**Source.** :cite:t:`press2022`, section 3." in text
    assert "**Chapter.** :doc:`/chapters/02_masks`, 09_later." in text
