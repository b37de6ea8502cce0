"""The built site: every link resolves, nothing comes from outside, figures speak."""

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from fontTools.ttLib import TTFont
from support.book.site import HTML, ROOT, Page, built, extension

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text())
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())

CSS_URL = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


def depends(item) -> list[Path]:
    """The built site, and what it was built from."""
    return [HTML, ROOT]


@pytest.fixture(scope="module")
def pages():
    built()
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
    loads = [(path, url) for path, page in pages.items() for url in page.loads]
    loads += [(sheet, url) for sheet in HTML.rglob("*.css") for url in css_urls(sheet)]
    outside = [f"{path.relative_to(HTML)}: {url}" for path, url in loads if is_external(url)]
    assert not outside, "\n".join(outside)


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
    given = (os.environ, repository["url"], repository["branch"])
    url, branch = extension("site_setup").repository(*given)
    prefix = url.replace("https://github.com/", "https://colab.research.google.com/github/")
    for name in toc_files(TOC):
        links = {url for url in pages[HTML / f"{name}.html"].links if "colab." in url}
        notebook = (ROOT / f"{name}.ipynb").exists()
        assert links == ({f"{prefix}/blob/{branch}/{name}.ipynb"} if notebook else set()), name


def test_every_module_has_an_api_section():
    pages = "".join(path.read_text() for path in (ROOT / "chapters").glob("api*.md"))
    package = ROOT / "attncourse"
    files = [x for part in ("", "lab/", "show/") for x in package.glob(f"{part}[!_]*.py")]
    modules = {".".join(x.relative_to(package).with_suffix("").parts) for x in files}
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
