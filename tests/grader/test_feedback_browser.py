"""Feedback pages in a real browser, made of everything that a student could wish to run there."""

from importlib.resources import files

import pytest

from attncourse.grading import load, names
from attncourse.grading.verdict import Verdict
from attngrade import Graded, Result
from attngrade.feedback import page_names
from attngrade.report import write
from attngrade.table import Run

WIDTHS = {"phone": 360, "desktop": 1280}
FIRST = list(names("dot_product"))

pytestmark = pytest.mark.browser

RUN = "window.pwned=1;document.title='pwned';console.log('pwned');alert(1);fetch('http://127.0.0.1:9/')"
HOSTILE = [
    f"<script>{RUN}</script>",
    f"</style></title></textarea></script><script>{RUN}</script>",
    f'"><script>{RUN}</script>',
    f'\'"><img src=x onerror="{RUN}">',
    f'<svg onload="{RUN}"><animate onbegin="{RUN}" attributeName=x dur=1s /></svg>',
    f'<body onload="{RUN}"><details open ontoggle="{RUN}"><input autofocus onfocus="{RUN}">',
    f'<a href="javascript:{RUN}">see your points</a>',
    f"javascript:{RUN}",
    '<base href="http://127.0.0.1:9/"><link rel=stylesheet href=x.css>',
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    "<style>@import 'http://127.0.0.1:9/'; *{display:none!important}</style>",
    '<p style="position:fixed;inset:0;background:url(http://127.0.0.1:9/)">100 of 100 points</p>',
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;b&#62; &amp;lt;",
    "{{ 7 * 7 }} {% raw %} {{ row.__class__.__mro__ }} ${7*7} <%= 7*7 %>",
    "<!-- --><![CDATA[ <b> ]]> <plaintext> <noscript> <template>",
    "a\u202egpj.\u2066 \0 \x1b[31m \u2028 \udcff \ufeff",
    "Z\u0351\u0352\u0353" * 300,
    "W" * 1_000_000,
    "<b>" * 350_000,
    "\n" * 1_000_000,
]

# Nothing of the submission became an element: these are all that our templates write.
ELEMENTS = "() => [...new Set([...document.querySelectorAll('*')].map(e => e.localName))]"
OURS = {"html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section"}
OURS |= {"article", "h1", "h2", "h3", "p", "ul", "li", "span", "strong", "code", "bdi", "a"}
OURS |= {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = """() => [...new Set([...document.querySelectorAll('body *')].flatMap(
  e => e.getAttributeNames()))]"""
AXE = """() => axe.run(document, {resultTypes: ['violations'], preload: false}).then(r => r.violations
  .map(v => v.id + ': ' + v.nodes.map(n => n.target.join(' ')).join(', ')))"""


class Tab:
    """A tab that notes whatever a page does besides being shown."""

    def __init__(self, page, deeds):
        self.page, self.deeds = page, deeds
        page.on("console", lambda m: deeds.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: deeds.append(f"error: {error}"))
        page.on("request", self.note_request)
        page.on("dialog", self.note_dialog)
        page.on("popup", lambda p: deeds.append("popup"))
        page.on("framenavigated", lambda f: f.parent_frame and deeds.append("frame"))

    def note_request(self, request):
        if not request.is_navigation_request() or request.url != self.expected:
            self.deeds.append(f"request: {request.url[:80]}")

    def note_dialog(self, dialog):
        self.deeds.append("dialog")
        dialog.dismiss()

    def open(self, path):
        self.expected = path.as_uri()
        self.page.goto(self.expected, wait_until="load")


@pytest.fixture
def tab(browser):
    context = browser.new_context()
    yield Tab(context.new_page(), [])
    context.close()


def verdict(number, text, **more):
    e = load(FIRST[number % len(FIRST)])
    fields = {"status": "failed", "findings": (text, text, text, text), "diagnosis": text} | more
    return Verdict(e.name, fields.pop("status"), 0, e.points, **fields)


def statuses():
    """One page with every kind of status, as most students will see it."""
    others = ("failed", "not attempted", "did not finish", "not graded")
    shown = [verdict(n, "expected 1, got 2", status=status) for n, status in enumerate(others)]
    e = load(FIRST[4])
    return (*shown, Verdict(e.name, "passed", e.points, e.points))


def handed_in(text):
    verdicts = verdict(0, text), verdict(1, text, status=text)
    return Result(text[:5000], "", (Graded(text, text, verdicts, (text,), (text,)),))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder of the pages, and the page of each student."""
    anna = Graded("anna.ipynb", "ab" * 32, statuses(), ("Two cells were joined.",))
    results = [*map(handed_in, HOSTILE), Result("Anna Schmidt", "", (anna,))]
    folder = tmp_path_factory.mktemp("results")
    protections = tuple((text, text) for text in HOSTILE)
    write(results, Run(False, protections, tuple(HOSTILE), HOSTILE[0]), folder)
    return folder / "feedback", page_names({r.student for r in results})


def check(tab, path):
    """Open a page, give it time to misbehave, and return what it did, in words."""
    tab.page.set_viewport_size({"width": WIDTHS["phone"], "height": 900})
    tab.open(path)
    tab.page.mouse.move(50, 300)
    found = list(tab.deeds)
    if tab.page.evaluate("typeof window.pwned") != "undefined":
        found.append("a script ran")
    if not tab.page.title().startswith("Feedback"):
        found.append(f"title: {tab.page.title()[:80]}")
    found += [f"element {name}" for name in set(tab.page.evaluate(ELEMENTS)) - OURS]
    allowed = {"class", "aria-hidden", "scope", "href"}
    found += [f"attribute {name}" for name in set(tab.page.evaluate(ATTRIBUTES)) - allowed]
    for width in WIDTHS.values():
        tab.page.set_viewport_size({"width": width, "height": 900})
        needed = tab.page.evaluate("document.documentElement.scrollWidth")
        if needed > width:
            found.append(f"scrolls sideways, {needed} px in {width}")
    tab.deeds.clear()
    return found


def test_nothing_of_a_submission_runs_and_text_is_shown_as_it_was_written(tab, written):
    folder, pages = written
    found, odd = {}, HOSTILE[16]
    for student, page in sorted(pages.items(), key=lambda both: both[1]):
        found[page] = check(tab, folder / page)
        assert not tab.page.locator("a").count(), "a page of a student links nowhere"
        if student in HOSTILE[:16]:
            assert shown(tab) == f"Most likely: {student}"
            assert tab.page.locator(".problems li").first.text_content() == student
        assert student != odd or "a[U+202E]gpj.[U+2066] [U+0000]" in shown(tab)
    assert {*HOSTILE[:16], odd} <= pages.keys()
    found["index.html"] = check(tab, folder / "index.html")
    assert not {page: deeds for page, deeds in found.items() if deeds}
    links = tab.page.locator("a").evaluate_all("all => all.map(a => a.href)")
    assert sorted(links) == sorted((folder / page).as_uri() for page in pages.values())


def shown(tab) -> str:
    return tab.page.locator(".diagnosis").first.text_content()


def test_a_page_forbids_scripts_and_styles_by_itself(tab, written, tmp_path):
    """What if the escaping failed one day: the same page, with a hole made in it."""
    folder, pages = written
    whole = (folder / pages["Anna Schmidt"]).read_text("utf-8")
    # No policy forbids a refresh to another page: of that, escaping alone protects.
    inside = "".join(text for text in HOSTILE[:14] if "refresh" not in text)
    holed = tmp_path / "x.html"
    holed.write_text(whole.replace("</main>", inside + "</main>"), encoding="utf-8")
    tab.open(holed)
    refused, turns = [], 100  # what the browser says comes when it comes
    while len(refused) <= 5 and (turns := turns - 1):
        tab.page.wait_for_timeout(200)
        refused = [deed for deed in tab.deeds if "Content Security Policy" in deed]
    assert tab.page.evaluate("typeof window.pwned") == "undefined"
    assert tab.page.title() == "Feedback for Anna Schmidt"
    assert tab.page.locator("h1").is_visible()
    assert len(refused) > 5, "the hole was there"
    done = "dialog", "request: http", "console: pwned"
    assert not [deed for deed in tab.deeds if deed.startswith(done)]


def test_a_hole_without_the_policy_would_be_noticed(tab, written, tmp_path):
    """The watch itself: without the policy, the same hole is seen in every way."""
    folder, pages = written
    whole = (folder / pages["Anna Schmidt"]).read_text("utf-8")
    naked = tmp_path / "x.html"
    text = whole.replace("Content-Security-Policy", "x").replace("</main>", HOSTILE[0] + "</main>")
    naked.write_text(text, encoding="utf-8")
    found = " ".join(check(tab, naked))
    deeds = "dialog, console: pwned, request: http, a script ran, title, element script"
    assert [deed for deed in deeds.split(", ") if deed not in found] == []


def test_everybody_can_read_it(tab, written):
    folder, pages = written
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    anna, phone = pages["Anna Schmidt"], WIDTHS["phone"]
    cases = [(path, phone, "light") for path in (pages[HOSTILE[13]], "index.html", anna)]
    for path, width, scheme in (*cases, (anna, WIDTHS["desktop"], "dark")):
        tab.page.emulate_media(color_scheme=scheme)
        tab.page.set_viewport_size({"width": width, "height": 900})
        tab.open(folder / path)
        tab.page.evaluate(axe)
        assert tab.page.evaluate(AXE) == [], (path, scheme)
    said = tab.page.locator(".status").all_text_contents()
    assert said == ["✗ failed", "– not attempted", "– did not finish", "– not graded", "✓ passed"]
