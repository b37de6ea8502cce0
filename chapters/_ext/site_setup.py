"""Sphinx glue for the site: links that follow the fork, anchors of terms, local MathJax, no dead scripts."""

import os
import re
import shutil
from importlib import metadata
from pathlib import Path

from docutils import nodes

# The two parts of MathJax 3 that a page can ask for; the other 22 MB stay in the package.
MATHJAX = ("tex-chtml.js", "output/chtml/fonts/woff-v2")
FAULTS = (
    # A script of 1.5 MB for icons that a web font draws as well.
    (re.compile(r"\s*<script[^>]*fontawesome\.js[^>]*></script>"), ""),
    # The arrow that opens a part of the contents has no name for those who cannot see it.
    (
        re.compile(r'<summary>(?=<span class="toctree-toggle")'),
        '<summary aria-label="Pages below">',
    ),
    # The children of a list must be its items.
    (re.compile(r'(class="citation" id="\w+" role=")doc-biblioentry'), r"\1listitem"),
    # The list of sources puts the modules of a package behind its item, not into it.
    (re.compile(r"</li>\n<ul>(<li>.*?)</ul>", re.DOTALL), r"\n<ul>\1</ul></li>"),
)


def repository(environ, url, branch):
    """Where the sources live: the fork that GitHub Actions builds, otherwise ``url, branch``.

    A pull request is built from a temporary ref that nobody can open later, so only real branches
    replace ``branch``.
    """
    slug = environ.get("GITHUB_REPOSITORY")
    if not slug:
        return url, branch
    ref = environ.get("GITHUB_REF", "")
    if ref.startswith("refs/heads/"):
        branch = ref.removeprefix("refs/heads/")
    return f"{environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{slug}", branch


def pages_url(slug):
    """Where GitHub Pages puts the site of ``owner/name``."""
    owner, _, name = slug.partition("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def set_repository(app, config):
    """Make the Colab, repository and issue buttons follow the fork."""
    options = config.html_theme_options
    options["repository_url"], options["repository_branch"] = repository(
        os.environ, options["repository_url"], options["repository_branch"]
    )
    if slug := os.environ.get("GITHUB_REPOSITORY"):
        config.html_baseurl = pages_url(slug)


def name_terms(app, doctree):
    """A plain link to ``glossary.md#term-kv-cache`` leads to the term "KV cache", and MyST knows it.

    A link to a term that is not there stays a warning, and so an error.
    """
    anchors = {}
    for term in doctree.findall(nodes.term):
        name = "term-" + re.sub(r"[^a-z0-9._]+", "-", term.astext().lower()).strip("-")
        if any(x.startswith("term-") for x in term["ids"]):
            term["ids"] = list(dict.fromkeys([*term["ids"], name]))
            anchors[name] = (term.line, name, term.astext())
    if anchors:
        app.env.metadata[app.env.docname].setdefault("myst_slugs", {}).update(anchors)


def drop_thebe(app, pagename, templatename, context, doctree):
    """Live cells are off, but sphinx-thebe still declares its constants, twice, which is an error."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in str(getattr(script, "filename", script)).lower()
        and "THEBE" not in str(getattr(script, "attributes", {}).get("body", ""))
    ]


def copy_mathjax(app, exception):
    """Formulas are typeset offline, and nothing of MathJax is committed."""
    if exception or app.builder.format != "html":
        return
    package = metadata.distribution("sphinx-mathjax-offline")
    source = Path(package.locate_file("sphinx-mathjax-offline")) / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in MATHJAX:
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if (source / part).is_dir():
            shutil.copytree(source / part, target / part, dirs_exist_ok=True)
        else:
            shutil.copy2(source / part, target / part)


def polish_pages(app, exception):
    """Mend what no option of the theme or of Sphinx reaches."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    for page in out.rglob("*.html"):
        text = better = page.read_text(encoding="utf-8")
        for fault, cure in FAULTS:
            better = fault.sub(cure, better)
        if better != text:
            page.write_text(better, encoding="utf-8")
    for leftover in [*out.glob("_static/scripts/fontawesome.js*"), *out.glob("_static/**/*.map")]:
        leftover.unlink(missing_ok=True)


def setup(app):
    app.connect("config-inited", set_repository)
    app.connect("doctree-read", name_terms)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", polish_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
