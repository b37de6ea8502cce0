"""The built site in a real browser: every page, in light and dark, on a desktop and on a phone."""

import functools
import gzip
import http.server
import threading
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest

HTML = Path(__file__).parents[2] / "_build" / "html"
PAGES = [
    path.relative_to(HTML).as_posix()
    for path in sorted(HTML.rglob("*.html"))
    if HTML / "_static" not in path.parents  # the theme leaves templates there
]
# The phone comes first: the theme decides at load time which boxes scroll and so need a tab stop.
WIDTHS = {"phone": 390, "desktop": 1280}

pytestmark = pytest.mark.browser


def depends(item) -> list[Path]:
    """A page passes as long as it and what all pages share stay the same."""
    page = getattr(item, "callspec", None)
    return [HTML / page.params["path"] if page else HTML, HTML / "_static"]


FORMULA_PROBLEMS = """() => [
  ...[...document.querySelectorAll('mjx-merror, [data-mjx-error], mjx-container [style*="red"]')]
    .map(e => 'error in ' + (e.closest('mjx-container').parentElement.textContent || e.outerHTML)),
  ...[...document.querySelectorAll('.math')]
    .filter(e => !e.querySelector('mjx-container')).map(e => 'not typeset: ' + e.textContent)]"""

# axe would fetch the style sheets once more, and look for their imports in the wrong folder.
# Contrast is most of its time. Colours do not change with the width, nor all else with the theme.
AXE = """only => axe.run(document, {resultTypes: ['violations'], preload: false, ...only}).then(r => r.violations
  .filter(v => ['serious', 'critical'].includes(v.impact))
  .map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join(', ')))"""


CONTRAST = {"runOnly": ["color-contrast"]}
STRUCTURE = {"rules": {"color-contrast": {"enabled": False}}}
RULES = {
    ("light", "phone"): (CONTRAST, STRUCTURE),
    ("light", "desktop"): (STRUCTURE,),
    ("dark", "phone"): (CONTRAST,),
}

RAW_LIMIT, GZIP_LIMIT = 2_500_000, 900_000


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site uncached and keeps a list of the files that were asked for."""

    asked = []

    def end_headers(self):
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def do_GET(self):
        self.asked.append(Path(self.translate_path(self.path)))
        super().do_GET()

    def log_message(self, *args):
        pass


@functools.cache
def weight(path):
    """Bytes of a file as it lies on the disk, and as a server sends it."""
    raw = path.read_bytes()
    text = path.suffix in {".html", ".css", ".js", ".svg", ".json"}
    return len(raw), len(gzip.compress(raw, 6)) if text else len(raw)


@pytest.fixture(scope="module")
def server():
    if not (HTML / "index.html").exists():
        pytest.fail("there is no built site: run `make book` first", pytrace=False)
    handler = functools.partial(Handler, directory=HTML)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}/"
        httpd.shutdown()
        thread.join()


class Tab:
    """A browser tab that writes down everything that goes wrong."""

    def __init__(self, page, server):
        self.page, self.server, self.problems = page, server, []
        page.on("request", self.check_request)
        page.on("response", lambda r: r.status < 400 or self.report(f"status {r.status}: {r.url}"))
        page.on("requestfailed", lambda r: self.report(f"request failed: {r.url}"))
        page.on("pageerror", lambda error: self.report(f"uncaught: {error}"))
        page.on("console", lambda m: m.type != "error" or self.report(f"console: {m.text}"))

    def report(self, problem):
        self.problems.append(problem)

    def check_request(self, request):
        if not request.url.startswith((self.server, "data:", "blob:")):
            self.report(f"request leaves the site: {request.url}")

    def open(self, path):
        self.problems.clear()
        Handler.asked.clear()
        self.page.goto(self.server + path, wait_until="load")
        self.page.evaluate("() => window.MathJax?.startup?.promise")

    def check_weight(self):
        loaded = [weight(path) for path in set(Handler.asked) if path.is_file()]
        raw, gzipped = (sum(sizes) for sizes in zip(*loaded, strict=True))
        if raw > RAW_LIMIT or gzipped > GZIP_LIMIT:
            self.report(f"the page weighs {raw / 1e6:.2f} MB, gzipped {gzipped / 1e6:.2f} MB")


@pytest.fixture(scope="module")
def tabs(browser, server):
    """One tab for each theme. The theme is chosen as the switch does it, before the page loads."""
    with contextmanager(_tabs)(browser, server) as both:
        yield both


def _tabs(browser, server):
    contexts, both = [], {}
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme)
        context.add_init_script(
            f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}');"
        )
        contexts.append(context)
        both[theme] = Tab(context.new_page(), server)
    yield both
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def axe():
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def test_site_was_built(server):
    assert "index.html" in PAGES


@pytest.mark.parametrize("path", PAGES)
def test_page(path, tabs, axe):
    found = []
    for theme, tab in tabs.items():
        page = tab.page
        page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
        tab.open(path)
        page.evaluate(axe)
        if page.evaluate("document.documentElement.dataset.theme") != theme:
            tab.report("the theme was not applied")
        tab.problems += page.evaluate(FORMULA_PROBLEMS)
        tab.check_weight()
        for name, width in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": 900})
            for only in RULES.get((theme, name), ()):
                tab.problems += [f"{name}, {violation}" for violation in page.evaluate(AXE, only)]
            needed = page.evaluate("document.documentElement.scrollWidth")
            if needed > width:
                tab.report(f"{name}: scrolls sideways, {needed} px in {width}")
        found += [f"{theme}: {problem}" for problem in tab.problems]
    assert not found, f"{path}\n" + "\n".join(found)


def test_search_finds_softmax(tabs):
    tab = tabs["light"]
    tab.open("search.html?q=softmax")
    tab.page.wait_for_selector("#search-results ul.search li a", timeout=10_000)
    hits = tab.page.locator("#search-results ul.search li a").evaluate_all(
        "all => all.map(a => a.href)"
    )
    assert any("glossary.html" in hit for hit in hits), hits
    assert not tab.problems, tab.problems
