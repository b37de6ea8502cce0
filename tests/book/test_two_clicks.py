"""What the documents speak of is at most two clicks from the front page, over links in the text of a page."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from support.book.site import HTML, built

# What the five documents treat, the words by which a page of the site is known to treat it, and that page.
TOPICS = [
    ("scaled dot-product attention", "01_dot_product", "softmax"),
    ("query, key and value", "01_dot_product", "three roles of one word"),
    ("the dictionary and the party", "01_dot_product", "party"),
    ("why divide by the root", "01_dot_product", "Why divide by the square root?"),
    ("self-attention", "01_dot_product", "self-attention"),
    ("causal mask", "02_masks", "causal"),
    ("padding mask", "02_masks", "padding"),
    ("multi-head attention", "03_multi_head", "What do more heads cost?"),
    ("cross-attention", "03_multi_head", "Cross-attention: one sequence asks"),
    ("what a head looks for", "03_multi_head", "What the heads of a language model do"),
    ("weights as an explanation", "03_multi_head", "What a map does not tell"),
    ("encoder, decoder, regression", "05_transformer", "Numbers instead of words"),
    ("KV cache", "06_kv_cache", "The KV cache"),
    ("multi-query attention", "07_multi_query", "Multi-query attention"),
    ("grouped-query attention", "08_grouped_query", "Grouped-query attention"),
    ("FlashAttention", "10_flash", "FlashAttention"),
    ("sliding window, local attention", "13_sliding_window", "local attention"),
    ("global and local", "14_global_local", "BigBird"),
    ("attention sink", "15_sinks", "attention sink"),
    ("disentangled attention", "16_disentangled", "DeBERTa"),
    ("Shaw, Transformer-XL", "16_disentangled", "Transformer-XL"),
    ("multi-token attention", "17_multi_token", "Multi-token attention"),
    ("linear attention", "18_linear", "elu"),
    ("gated linear attention", "19_gated_delta", "gated linear attention"),
    ("advantages, drawbacks, comparisons", "claims", "What the documents claim"),
    ("further reading", "resources", "The twenty links"),
]


def depends(item) -> list[Path]:
    return [HTML]


@cache
def article(path):
    text = path.read_text(encoding="utf-8")
    return text[text.index('<article class="bd-article"') : text.index("</article>")]


def linked(path):
    """The pages to which the text of a page links; the contents at its side do not count."""
    for url in re.findall(r'<a [^>]*href="([^"]+)"', article(path)):
        parts = urlsplit(url)
        found = (path.parent / unquote(parts.path)).resolve()
        if not parts.scheme and found.suffix == ".html" and found.exists():
            yield found


@pytest.fixture(scope="module")
def near():
    """The pages that are one click away, and those that are one or two."""
    one = set(linked(built().resolve()))
    return one, one.union(*(linked(page) for page in one))


def test_there_are_26_topics():
    assert len({name for name, _, _ in TOPICS}) == 26


@pytest.mark.parametrize(("name", "stem", "words"), TOPICS, ids=[name for name, _, _ in TOPICS])
def test_topic_is_two_clicks_away(name, stem, words, near):
    page = HTML.resolve() / f"chapters/{stem}.html"
    assert page in near[1]
    assert words.lower() in re.sub(r"<[^>]+>", "", article(page)).lower()


def test_every_variant_of_the_map_is_one_click_away(near):
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", article(HTML / "index.html"), re.DOTALL)
    variants = [row for row in rows if "<td" in row and "planned" not in row]
    assert len(variants) >= 26
    assert all(re.search(r'href="chapters/\w+\.html', row) for row in variants)


def test_every_page_of_the_book_is_two_clicks_away(near):
    pages = {path.resolve() for path in (HTML / "chapters").glob("*.html")}
    assert {path.stem for path in pages - near[1]} == set()
