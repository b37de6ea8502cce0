"""The built site in a real browser: every page, in light and dark, on a desktop and on a phone."""

import functools
import http.server
import threading
from importlib.resources import files
from pathlib import Path

import pytest
from support.book.notebooks import TAUGHT, each
from support.book.site import GZIP_LIMIT, HTML, RAW_LIMIT, built, weight

# The theme leaves templates in _static. Listings of source are all made alike: the longest stands for them.
LISTINGS = sorted(HTML.rglob("_modules/**/*.html"), key=lambda path: path.stat().st_size)
PAGES = [
    path.relative_to(HTML).as_posix()
    for path in sorted(HTML.rglob("*.html"))
    if HTML / "_static" not in path.parents and path not in LISTINGS[:-1]
]
# The phone comes first: the theme decides at load time which boxes scroll and so need a tab stop.
WIDTHS = {"phone": 390, "desktop": 1280}
SCREENS = {"phone": (390, 844), "desktop": (1280, 900)}

pytestmark = pytest.mark.browser


def depends(item) -> list[Path]:
    """A page passes as long as it and what all pages share stay the same."""
    path = item.callspec.params.get("path") if hasattr(item, "callspec") else None
    if isinstance(path, Path):  # a notebook
        path = html(path)
    # Where the site is not built there are no pages, and pytest puts a mark of its own in their place.
    return [HTML / path if isinstance(path, str) else HTML, HTML / "_static"]


def html(notebook: Path) -> str:
    return f"chapters/{notebook.stem}.html"


FORMULA_PROBLEMS = """() => [
  ...[...document.querySelectorAll('mjx-merror, [data-mjx-error], mjx-container [style*="red"]')]
    .map(e => 'error in ' + (e.closest('mjx-container').parentElement.textContent || e.outerHTML)),
  ...[...document.querySelectorAll('.math')]
    .filter(e => !e.querySelector('mjx-container')).map(e => 'not typeset: ' + e.textContent)]"""

# What a reader sees first, as [name, top, bottom] of each, with code that is in view.
FIRST_SCREEN = """() => {
  const article = document.querySelector('article.bd-article')
  const at = (name, e) => [name, e.getBoundingClientRect().top, e.getBoundingClientRect().bottom]
  const seen = [...article.querySelectorAll('img, pre, h1, p')]
    .filter(e => e.checkVisibility() && e.offsetWidth > 50 && !e.closest('summary'))
  const until = seen.findIndex(e => e.matches('img, pre'))
  const imports = seen.filter(e => e.matches('pre') && /^(import|from) /m.test(e.textContent))
  return [...seen.slice(0, until < 0 ? seen.length : until + 1).map(e => at(e.tagName, e)), ...imports.map(e => at('import', e))]
}"""

# axe would fetch the style sheets once more, and look for their imports in the wrong folder.
# Colours do not change with the width, nor all else with the theme.
AXE = """([where, only]) => axe.run(where, {resultTypes: ['violations'], preload: false, ...only}).then(r => r.violations
  .filter(v => ['serious', 'critical'].includes(v.impact))
  .map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join(', ')))"""
# axe takes milliseconds to find what lies behind one text, and a listing has thousands: of texts that share
# colour, size, and all that is painted below them, it looks at the first.
TEXTS = """() => {
  const painted = new Map(), seen = new Set()
  const behind = e => {
    if (!e) return ''
    if (!painted.has(e)) {
      const {backgroundColor, backgroundImage, opacity, position} = getComputedStyle(e)
      const own = [backgroundColor, backgroundImage, opacity, position].join()
      painted.set(e, behind(e.parentElement) + (own === 'rgba(0, 0, 0, 0),none,1,static' ? '' : '/' + own))
    }
    return painted.get(e)
  }
  for (const e of document.body.querySelectorAll('*')) {
    e.removeAttribute('data-text')
    const says = [...e.childNodes].some(n => n.nodeType === Node.TEXT_NODE && n.data.trim())
    if (!says || !e.checkVisibility()) continue
    const {color, fontSize, fontWeight} = getComputedStyle(e)
    const kind = [color, fontSize, fontWeight, behind(e)].join()
    if (!seen.has(kind)) e.setAttribute('data-text', '')
    seen.add(kind)
  }
}"""
CONTRAST = {"runOnly": ["color-contrast"]}
STRUCTURE = {"rules": {"color-contrast": {"enabled": False}}}
UNFOLD = "document.querySelectorAll('.bd-article details').forEach(e => e.open = true)"
# The words of a listing have colours and no other structure, and there are thousands of them.
PLAIN = "document.querySelectorAll('.highlight pre').forEach(e => e.textContent = e.textContent)"
# Colours may fade for a moment, the theme moves its columns for 0.2 s after a change of width, and axe asks which
# element is painted on top: so what moves is finished, and two frames are waited for.
STILL = """
  const frame = () => new Promise(requestAnimationFrame)
  await frame()
  document.getAnimations().forEach(animation => animation.finish())
  await frame()
"""
THEME = (
    "async name => { document.documentElement.dataset.mode = document.documentElement.dataset.theme = name"
    + STILL
    + "}"
)
# Tab stops come to the boxes that scroll 0.3 s after the last change. 3 s are waited at most; what is missing then is reported.
SETTLED = (
    "async () => {"
    + STILL
    + """
  const left = () => [...document.querySelectorAll('pre')].some(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0)
  for (const end = performance.now() + 3000; left() && performance.now() < end;) await frame()
}"""
)


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


@pytest.fixture(scope="module")
def server():
    built()
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
        page.on("requestfailed", self.check_failure)
        page.on("pageerror", lambda error: self.report(f"uncaught: {error}"))
        page.on("console", lambda m: m.type != "error" or self.report(f"console: {m.text}"))

    def check_failure(self, request):
        """A page that is left early gives up its icon; anything else is a problem."""
        gave_up = "ABORTED" in (request.failure or "") and request.url.endswith("favicon.svg")
        if not gave_up:
            self.report(f"request failed ({request.failure}): {request.url}")

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

    def look(self, name, only, where="html"):
        """Ask axe."""
        found = self.page.evaluate(AXE, [where, only])
        self.problems += [f"{name}, {violation}" for violation in found]

    def look_at_colours(self, name):
        self.page.evaluate(TEXTS)
        self.look(name, CONTRAST, "[data-text]")

    def check_width(self, name):
        needed = self.page.evaluate("document.documentElement.scrollWidth")
        if needed > self.page.viewport_size["width"]:
            self.report(f"{name}: scrolls sideways, {needed} px")

    def check_weight(self):
        loaded = [weight(path) for path in set(Handler.asked) if path.is_file()]
        raw, gzipped = (sum(sizes) for sizes in zip(*loaded, strict=True))
        if raw > RAW_LIMIT or gzipped > GZIP_LIMIT:
            self.report(f"the page weighs {raw / 1e6:.2f} MB, gzipped {gzipped / 1e6:.2f} MB")


@pytest.fixture(scope="module")
def tab(browser, server):
    context = browser.new_context(color_scheme="light", reduced_motion="reduce")
    yield Tab(context.new_page(), server)
    context.close()


@pytest.fixture(scope="module")
def axe():
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


def test_site_was_built(server):
    assert "index.html" in PAGES


@pytest.mark.parametrize("path", PAGES)
def test_page(path, tab, axe):
    """Loaded once, as a phone does it; what is folded is opened, so that it is looked at as well."""
    page = tab.page
    page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
    tab.open(path)
    tab.check_weight()
    page.evaluate(axe)
    tab.problems += page.evaluate(FORMULA_PROBLEMS)
    page.evaluate(UNFOLD)
    page.evaluate(THEME, "light")
    tab.look_at_colours("light")
    tab.check_width("phone")
    page.evaluate(THEME, "dark")
    tab.look_at_colours("dark")
    tab.check_width("phone, dark")
    page.evaluate(PLAIN)
    page.evaluate(SETTLED)
    tab.look("phone", STRUCTURE)
    page.set_viewport_size({"width": WIDTHS["desktop"], "height": 900})
    page.evaluate(SETTLED)
    tab.look("desktop", STRUCTURE)
    tab.check_width("desktop")
    assert not tab.problems, f"{path}\n" + "\n".join(tab.problems)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_chosen_theme_is_applied(theme, browser, server):
    """The switch stores the theme; the next page is in it when it has loaded."""
    context = browser.new_context(color_scheme="light" if theme == "dark" else "dark")
    context.add_init_script(
        f"localStorage.setItem('mode', '{theme}'); localStorage.setItem('theme', '{theme}');"
    )
    tab = Tab(context.new_page(), server)
    tab.open("index.html")
    colour = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    chosen = tab.page.evaluate("document.documentElement.dataset.theme")
    tab.page.evaluate(THEME, "light" if theme == "dark" else "dark")
    other = tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
    context.close()
    assert chosen == theme
    assert colour != other, "test_page switches the theme in the same way"
    assert not tab.problems, tab.problems


@pytest.mark.parametrize("screen", SCREENS)
@each(TAUGHT)
def test_first_screen_holds_the_question_and_a_picture(path, screen, tab):
    width, height = SCREENS[screen]
    tab.page.set_viewport_size({"width": width, "height": height})
    tab.open(html(path))
    first = tab.page.evaluate(FIRST_SCREEN)
    seen = [x for x in first if x[0] != "import"]
    assert not [x for x in first if x[0] == "import" and x[1] < height], "an import is in view"
    assert [x[0] for x in seen][:: max(len(seen) - 1, 1)] == ["H1", "IMG"], "no picture comes first"
    *words, (_, top, bottom) = seen
    assert len(words) > 1, "a question stands before the picture"
    assert all(end <= height for _, _, end in words), f"the words end at {words[-1][2]:.0f} px"
    needed = top if screen == "desktop" else top + (bottom - top) / 3
    assert needed < height, f"the picture needs {needed:.0f} px of {height}"


def test_search_finds_softmax(tab):
    tab.open("search.html?q=softmax")
    tab.page.wait_for_selector("#search-results ul.search li a")
    hits = tab.page.locator("#search-results ul.search li a").evaluate_all(
        "all => all.map(a => a.href)"
    )
    assert any("glossary.html" in hit for hit in hits), hits
    assert not tab.problems, tab.problems
