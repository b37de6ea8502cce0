"""The questions lead somewhere, and what the tables say of costs is what layers and caches show."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attncourse import KVCache, decode, masks
from attncourse.factory import ATTENTION_TYPES, get_attention
from attncourse.grading.exercises import CHAPTERS
from attncourse.lab import race
from attncourse.lab.choosing import Choice, Question, follow, nodes
from attncourse.lab.compared import VARIANTS, Size, table
from attncourse.lab.reach import hops
from attncourse.variants.linear import LinearCache
from attncourse.variants.rolling import RollingKVCache

pytestmark = pytest.mark.quick
SMALL = Size(64, 4, 48, groups=2, window=9, latent=24, rotary=8, span=8, kernel=(3, 5))


def test_at_most_nine_questions_each_with_a_reason_lead_to_what_the_course_has():
    questions = [x for x in nodes() if isinstance(x, Question)]
    choices = [x for x in nodes() if isinstance(x, Choice)]
    assert len(questions) <= 9
    assert all(x.ask.endswith("?") and len(x.why) > 40 for x in questions)
    assert all(len(x.because) > 40 for x in choices)
    assert {x.attention_type for x in choices} <= ATTENTION_TYPES.keys()
    assert {x.chapter for x in choices} <= set(CHAPTERS)
    assert len({x.ask for x in questions}) >= len(questions) - 1  # one may come twice


@pytest.mark.parametrize(
    ("answers", "name"),
    [
        ("yes yes yes no", "Latent"),
        ("no yes yes", "Windows and global tokens"),
        ("yes no no yes", "Gated delta rule"),
    ],
)
def test_answers_lead_to_a_choice(answers, name):
    *way, choice = follow(answers)
    assert choice.name == name
    assert [answer for _, answer in way] == answers.split()


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ("yes", "one more answer is needed, to: Must it find"),
        ("perhaps", "answer yes or no; got 'perhaps' to: Does it work from left to right"),
        ("no no no yes", "no question is left at 'yes'; the way ends at Multi-head"),
    ],
)
def test_answers_that_lead_nowhere_hear_why(answers, says):
    with pytest.raises(ValueError, match=says.replace("?", r"\?")):
        follow(answers)


def made(name: str, size: Size = SMALL):
    variant = VARIANTS[name]
    sizes = (size.embed_dim, size.num_heads)
    return get_attention(variant.attention_type, *sizes, **variant.options(size)).eval()


def cache_of(name: str, layer):
    if name in ("linear", "gated linear", "gated delta"):
        return LinearCache(layer)
    if name == "sliding window":
        return RollingKVCache(1, SMALL.num_heads, SMALL.window - 1, SMALL.head_dim)
    if name == "latent":
        return KVCache(1, 1, SMALL.length, SMALL.latent, value_dim=SMALL.rotary)
    return KVCache.of(layer, 1, SMALL.length)


# Multi-token attention keeps keys and values as multi-head attention does; its layer does not decode here.
WRITES = [name for name, x in VARIANTS.items() if x.keeps and name != "multi-token"]


@pytest.mark.parametrize("name", WRITES)
def test_what_is_kept_is_what_a_cache_holds_after_decoding(name):
    torch.manual_seed(0)
    layer, x = made(name), torch.randn(1, SMALL.length, SMALL.embed_dim)
    cache = cache_of(name, layer)
    for token in x.split(1, dim=1):
        decode(layer, token, cache)
    said = VARIANTS[name].kept_bytes(SMALL, bytes_per_number=4)
    # Linear attention also keeps the sum of the keys' features, a row of one more column.
    more = 4 * SMALL.embed_dim if name == "linear" else 0
    assert cache.nbytes == said + more


COUNTED = ("latent", "learned sink", "multi-token", "gated linear", "gated delta", "linear")


@pytest.mark.parametrize("name", COUNTED)
def test_flops_are_those_that_torch_counts(name):
    """Fused attention counts as nothing on a processor, so only those that do without it can be counted."""
    size = Size(128, 4, 512, latent=64, rotary=16, kernel=(3, 5))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        made(name, size)(torch.randn(1, size.length, size.embed_dim))
    in_chunks = "linear" in name or "delta" in name  # they also multiply within a chunk
    said = VARIANTS[name].flops(size)
    assert said / 1.02 <= counter.get_total_flops() <= said * (1.35 if in_chunks else 1.02)


FUSED = (
    "multi-head", "grouped-query", "sliding window", "window and global tokens", "disentangled", "differential",
)  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_flops_of_projections_are_those_that_torch_counts(name):
    """Of the others even what fused attention hides can be checked: each linear layer, on the rows that it gets."""
    size = Size(128, 4, 512, groups=2, window=33, span=8)
    layer = made(name, size)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(torch.randn(1, size.length, size.embed_dim))
    linear = [key for key, x in layer.named_modules() if isinstance(x, torch.nn.Linear)]
    counted = counter.get_flop_counts()
    found = sum(sum(counted[f"{type(layer).__name__}.{key}"].values()) for key in linear)
    assert math.isclose(found, VARIANTS[name].projecting(size), rel_tol=0.03)


def test_hops_are_those_of_the_mask():
    rule, n = masks.sliding_window(SMALL.window - 1, 0), SMALL.length
    window = masks.dense(rule, 1, 1, n, n)
    assert VARIANTS["sliding window"].hops(SMALL) == hops(window[0, 0])[-1, 0]
    assert VARIANTS["window and global tokens"].hops(SMALL) == 2


def test_a_table_has_a_row_for_each_variant_and_multi_head_attention_is_its_unit():
    rows = {name: rest for name, *rest in table(Size())}
    assert list(rows) == list(VARIANTS)
    parameters, flops, kept, far = rows["multi-head"]
    assert (parameters, flops, kept, far) == (4 * 4096**2 + 4 * 4096, 1.0, 2**29, 1)
    twice = Size(length=2 * 4096)
    assert math.isclose(VARIANTS["gated delta"].flops(twice), 0.52 * VARIANTS["multi-head"].flops(twice), rel_tol=0.02)  # fmt: skip


def test_every_contender_of_the_race_ran_and_can_run():
    runs = race.results()
    assert list(runs) == list(race.CONTENDERS)
    for found in runs.values():
        assert len(found) == 3
        assert all(math.isfinite(x) for run in found for x in run.values())
        assert all(run.keys() == {"loss", "equal", "far", "steps", "recall"} for run in found)
    for name in ("multi-head", "latent", "disentangled", "delta, then softmax"):
        found = race.run(name, seed=0, seconds=1e-9, recall_seconds=1e-9)
        assert found["steps"] == 1
        assert 3 < found["loss"] < 7
        assert 0 <= found["recall"] < 0.2


def test_what_contenders_keep_agrees_with_the_table():
    size = Size(race.WIDTH, race.HEADS, 512, groups=2, window=race.WINDOW, latent=32, rotary=8)
    names = {"grouped-query, 2": "grouped-query", "window of 32": "sliding window"}
    for name, contender in race.CONTENDERS.items():
        variant = VARIANTS.get(names.get(name, name))
        if variant and variant.keeps:
            more = size.embed_dim if name == "linear" else 0
            kept = contender.kept(512, race.HEADS, size.head_dim)
            assert kept == variant.keeps(size) + more, name
