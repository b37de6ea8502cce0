"""The small model with six kinds of positions, what it is trained on, and what a window changes."""

import pytest
import torch

from attncourse.lab import data, text
from attncourse.lab.models import KINDS, Positioned

VOCAB = 11


def model(kind: str, **options) -> Positioned:
    torch.manual_seed(0)
    made = Positioned(VOCAB, kind, longest=32, embed_dim=16, num_heads=2, **options).eval()
    if kind == "T5":
        torch.nn.init.normal_(made.table)
    return made


def tokens(n: int = 12) -> torch.Tensor:
    return torch.randint(VOCAB, (2, n), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_after_a_token_is_read(kind):
    x = tokens()
    changed = x.clone()
    changed[:, 7:] = (x[:, 7:] + 1) % VOCAB
    torch.testing.assert_close(model(kind)(x)[:, :7], model(kind)(changed)[:, :7])


@pytest.mark.parametrize("kind", KINDS)
def test_order_is_seen_by_all_kinds_but_none(kind):
    blind, x, order = model(kind, is_causal=False), tokens(), torch.randperm(12)
    same = torch.allclose(blind(x[:, order]), blind(x)[:, order], atol=1e-5)
    assert same == (kind == "none")


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_hides_what_came_before_it(kind):
    x, one = tokens(), model(kind, layers=1)
    changed = x.clone()
    changed[:, :8] = (x[:, :8] + 1) % VOCAB
    far = one(x, window=4)[:, -1], one(changed, window=4)[:, -1]
    torch.testing.assert_close(*far)
    torch.testing.assert_close(one(x, window=99), one(x))
    assert not torch.allclose(one(x)[:, -1], one(changed)[:, -1])


@pytest.mark.parametrize("kind", ["T5", "ALiBi", "rotary", "none"])
def test_distances_do_not_know_where_a_window_stands(kind):
    one, x = model(kind, layers=1), tokens()
    near = one(x, window=4)[:, -1]
    torch.testing.assert_close(near, one(x[:, -4:])[:, -1], rtol=1e-4, atol=1e-5)


def test_all_kinds_start_alike():
    start = model("none").state_dict()
    for kind in KINDS:
        for name, numbers in start.items():
            assert model(kind).state_dict()[name].equal(numbers), (kind, name)


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="one of none, learned, .*; got 'sin'"):
        Positioned(VOCAB, "sin")


def test_the_card_before_is_named():
    (deck,), before = data.card_before(torch.Generator().manual_seed(0), batch=3, cards=5)
    assert deck.sort(-1).values.equal(torch.arange(5).expand(3, 5))
    assert before[:, 1:].equal(deck[:, :-1])
    assert (before[:, 0] == data.IGNORE).all()


def test_held_out_characters_are_never_trained_on():
    alphabet, manual = text.characters()
    assert len(manual) == len(text.manual_text()) > 100_000
    assert "".join(alphabet[k] for k in manual[:80]) == text.manual_text()[:80]
    for held_out in (False, True):
        generator = torch.Generator().manual_seed(0)
        (x,), y = text.passages(generator, batch=500, length=9, held_out=held_out)
        assert x[:, 1:].equal(y[:, :-1])
        part = manual[: len(manual) * 9 // 10] if not held_out else manual[len(manual) * 9 // 10 :]
        for piece in x[:20].tolist():
            wanted = "".join(alphabet[k] for k in piece)
            assert wanted in "".join(alphabet[k] for k in part.tolist())
