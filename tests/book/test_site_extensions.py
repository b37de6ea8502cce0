"""The extensions of the site, without the site."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
from support.book.site import ROOT, Page, extension


@pytest.mark.parametrize(
    ("fork", "url", "branch", "baseurl"),
    [
        (None, "https://github.com/a/course", "main", "unchanged"),
        (("Alice/fork", "refs/heads/fix/masks"), "https://github.com/Alice/fork", "fix/masks", "https://alice.github.io/fork/"),
        (("Alice/alice.github.io", "refs/pull/7/merge"), "https://github.com/Alice/alice.github.io", "main", "https://alice.github.io/"),
    ],
    ids=["no fork", "branch of a fork", "pull request"],
)  # fmt: skip
def test_links_follow_the_fork(monkeypatch, fork, url, branch, baseurl):
    names = ("GITHUB_REPOSITORY", "GITHUB_REF")
    for name in (*names, "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in zip(names, fork or (), strict=bool(fork)):
        monkeypatch.setenv(name, value)
    options = {"repository_url": "https://github.com/a/course", "repository_branch": "main"}
    config = SimpleNamespace(html_theme_options=options, html_baseurl="unchanged")
    extension("site_setup").set_repository(None, config)
    assert options == {"repository_url": url, "repository_branch": branch}
    assert config.html_baseurl == baseurl


TERMS_ONLY = f"""
import sys
sys.path.insert(0, {str(ROOT / "chapters" / "_ext")!r})
import site_setup
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
def setup(app):
    app.connect("doctree-read", site_setup.name_terms)
"""
GLOSSARY = "# Glossary\n\n```{glossary}\nKV cache\n  Kept.\n\nembed_dim\n  Width.\n```\n\nno term\n: A list.\n"


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("term-kv-cache", ""),
        ("term-embed_dim", ""),
        ("glossary", ""),
        ("term-kv-cash", "local id not found in doc 'glossary': 'term-kv-cash'"),
        ("term-no-term", "local id not found"),
    ],
)
def test_a_link_to_a_term(link, problem, tmp_path):
    (tmp_path / "conf.py").write_text(TERMS_ONLY)
    (tmp_path / "glossary.md").write_text(GLOSSARY)
    page = f"# Course\n\nOf [words](glossary.md#{link}).\n\n```{{toctree}}\nglossary\n```\n"
    (tmp_path / "index.md").write_text(page)
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", "-b", "html", ".", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode == 0) == (not problem), done.stderr
    assert problem in done.stderr
    if not problem:
        html = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
        assert f'href="glossary.html#{link}"' in html
        assert link in Page(tmp_path / "out" / "glossary.html").ids


def test_measured_table_is_accessible_and_escaped():
    table = {"caption": "a < b", "note": "", "columns": ["case", "time"]}
    html = extension("measured").table_html(table | {"rows": [["x", 0.12346], ["y", True]]})
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
        "Source: press2022b, section 3. Chapter: none.",
        "Chapter: 02_masks, 09_later.",
    ]
    text = "\n".join(extension("docstrings").rewrite(docstring, {"chapters/02_masks"}))
    assert r"Lower a score by \|i - j\|." in text
    assert ".. code-block:: text\n\n        score -> score - |i - j|" in text
    assert "    slope: ``|x|`` per step." in text
    assert "**Cost.** n m\nadditions." in text
    assert "**Source.** :cite:t:`press2022b`, section 3." in text
    assert "**Chapter.** :doc:`/chapters/02_masks`, 09_later." in text
