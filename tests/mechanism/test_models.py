"""Tasks, models and training: the right map is known, the same seed gives the same run."""

import pytest
import torch
from torch import Generator

from attncourse.lab import data, offsets, train
from attncourse.lab.models import AttentionOnly, Fetcher, Translator
from attncourse.lab.recall import recall
from attncourse.show.listing import listing


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


DRAWS = [
    data.reversal, data.next_random_token, data.induction, data.cipher, data.look_back, data.broadcast,
    data.vector_lookup, data.attribute_copy, data.idle, data.copy_back, offsets.typed_offset,
    data.find_block, recall,
]  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.__name__)
def test_same_seed_same_batch(draw):
    one, two, other = draw(seeded()), draw(seeded()), draw(seeded(1))
    for a, b in zip([*one.inputs, one.targets], [*two.inputs, two.targets], strict=True):
        assert a.equal(b)
    assert not one.targets.equal(other.targets)


def test_targets_stand_where_the_map_says():
    (tokens,), targets = data.reversal(seeded(), batch=3, length=7)
    rows, columns = data.reversal_map(7).nonzero().T
    assert targets[:, rows].equal(tokens[:, columns])
    (source, said), answer = data.cipher(seeded(), batch=3, length=7)
    rows, columns = data.reversal_map(7).nonzero().T
    assert answer[:, rows].equal(data.substitution()[source[:, columns]])
    assert said[:, 1:].equal(answer[:, :-1])
    assert (said[:, 0] == 20).all()
    assert data.substitution().unique().numel() == 20, "a dictionary has an answer for each word"


def test_induction_can_be_answered_from_its_map():
    (tokens,), targets = data.induction(seeded(), batch=5)
    visible = data.induction_map(tokens)
    known = targets != data.IGNORE
    for b, i in known.nonzero().tolist():
        answers = tokens[b][visible[b, i]]
        follows = targets[b, i]
        assert answers.numel() == 0 or (answers == follows).all()
    assert not visible.triu(1).any()
    assert visible[known].any(-1).double().mean() > 0.9


def test_look_back_targets():
    (tokens,), targets = data.look_back(seeded(), batch=2, length=9, offsets=3)
    assert targets.shape == (2, 9, 3)
    assert (targets[:, 0] == data.IGNORE).all()
    assert targets[:, 3:, 2].equal(tokens[:, :-3])


def test_the_type_says_how_far_back_the_letter_is():
    (tokens,), targets = offsets.typed_offset(seeded(), batch=20, length=9, letters=5)
    assert set(tokens.unique().tolist()) == set(range(15))
    for b, row in enumerate(tokens.tolist()):
        for i, token in enumerate(row):
            source = i - 1 - token // 5
            assert targets[b, i] == (row[source] % 5 if source >= 0 else data.IGNORE)


def test_a_token_that_calls_is_read_so_many_places_later():
    (tokens,), targets = offsets.typed_offset(seeded(), batch=20, length=9, letters=5, calling=0.5)
    assert set(tokens.unique().tolist()) == set(range(30))
    read = offsets.typed_offset_map(tokens, letters=5)
    for b, row in enumerate(tokens.tolist()):
        for i, token in enumerate(row):
            offset, calls = token // 5 % 3 + 1, token >= 15
            callers = [j for j in range(9) if row[j] >= 15 and j + row[j] // 5 - 2 == i]
            found = callers if calls else [i - offset] * (i >= offset)
            assert targets[b, i] == (row[found[0]] % 5 if len(found) == 1 else data.IGNORE)
            assert read[b, i].nonzero().flatten().tolist() == found * (len(found) == 1)


def test_small_letters_look_back_and_capitals_call():
    assert offsets.spelled(torch.tensor([0, 7, 15, 29]), letters=5) == ["a1", "c2", "A1", "E3"]


def test_copy_back_reads_one_distance():
    (tokens,), targets = data.copy_back(seeded(), batch=2, length=9, offset=4)
    assert targets[:, 4:].equal(tokens[:, :-4])
    assert (targets[:, :4] == data.IGNORE).all()


@pytest.mark.parametrize("answer", ["first", "last", "block"])
def test_one_block_alone_holds_both_letters(answer):
    (tokens,), targets = data.find_block(seeded(), 200, blocks=5, size=3, letters=8, answer=answer)
    assert tokens.shape == targets.shape == (200, 24 if answer == "block" else 22)
    places = set()
    for row, target in zip(tokens.tolist(), targets.tolist(), strict=True):
        blocks = [row[k : k + 4] for k in range(0, 20, 4)]
        assert [block.pop() for block in blocks] == [8, 8, 8, 8, 9]
        assert all(len(set(block)) == 3 and max(block) < 8 for block in blocks)
        (found,) = [block for block in blocks if {*row[20:22]} <= {*block}]
        assert row[22:] == found[:-1] * (answer == "block")
        said = {"first": found[:1], "last": found[-1:], "block": found}[answer]
        assert target == [data.IGNORE] * 21 + said
        places.add((*map(found.index, row[20:22]), blocks.index(found)))
    assert len(places) == 3 * 2 * 5, "each two letters of each block are asked for"


def test_every_position_must_name_the_source():
    (tokens,), targets = data.broadcast(seeded(), batch=3, length=9, source=5)
    assert targets.shape == tokens.shape == (3, 9)
    assert (targets == tokens[:, 5:6]).all()
    (tokens,), targets = data.broadcast(seeded(), batch=3)
    assert (targets == tokens[:, :1]).all()


def test_pointers_name_what_to_fetch():
    (vectors, pointer), targets = data.vector_lookup(seeded(), 3, length=5, asked=7, width=11)
    assert (vectors.shape, pointer.shape, targets.shape) == ((3, 5, 11), (3, 7), (3, 7, 11))
    for b in range(3):
        for i in range(7):
            assert targets[b, i].equal(vectors[b, pointer[b, i]])
    assert set(pointer.unique().tolist()) == set(range(5))
    (things, pointer), targets = data.attribute_copy(seeded(), 3, 5, 7, attributes=2, classes=4)
    assert targets[2, 6].equal(things[2, pointer[2, 6]])
    assert set(things.unique().tolist()) == set(range(4))


@pytest.mark.parametrize("start", [True, False])
def test_a_flag_asks_for_the_vector_before(start):
    (vectors, flags), targets = data.idle(seeded(), batch=64, start=start)
    for b, i in flags.nonzero().tolist():
        assert targets[b, i].equal(vectors[b, i - 1])
    assert not targets[~flags].any()
    assert not flags[:, :2].any(), "nobody is asked for the start token"
    assert 0.13 < flags[:, 2:].double().mean() < 0.17
    assert (not vectors[:, 0].any()) == start


def test_a_fetcher_answers_by_its_map_alone():
    torch.manual_seed(0)
    fetcher = Fetcher()
    (vectors, flags), _ = data.idle(seeded(), batch=3)
    answer, weights = fetcher.with_weights(vectors, flags)
    mixed = weights[:, 0] @ fetcher.values(vectors, flags)
    by_hand = fetcher.answer(fetcher.attention.out_proj(mixed))
    torch.testing.assert_close(by_hand, answer)
    torch.testing.assert_close(fetcher(vectors, flags), answer)
    assert not weights.triu(1).any()
    hidden = torch.arange(32) > 0
    without = fetcher.with_weights(vectors, flags, hidden.expand(32, 32))[1]
    assert not without[:, :, :, 0].any()


def test_next_token_is_the_next():
    (tokens,), targets = data.next_random_token(seeded())
    assert tokens[:, 1:].equal(targets[:, :-1])


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4, None])
def test_every_layer_has_as_many_key_heads(num_kv_heads):
    model = AttentionOnly(20, 9, num_heads=4, layers=2, num_kv_heads=num_kv_heads)
    assert [layer.num_kv_heads for layer in model.layers] == [num_kv_heads or 4] * 2
    assert model(torch.randint(20, (2, 7))).shape == (2, 7, 20)


@pytest.mark.parametrize("use_rotary", [False, True])
def test_without_a_table_only_the_turn_tells_positions(use_rotary):
    torch.manual_seed(0)
    model = AttentionOnly(20, None, is_causal=True, use_rotary=use_rotary)
    tokens = torch.randint(20, (2, 12))
    before = tokens[:, [2, 0, 1, *range(3, 12)]]
    assert model(tokens)[:, -1].allclose(model(before)[:, -1], atol=1e-6) != use_rotary


def test_the_layers_are_made_by_what_is_given():
    made = []

    class Layer(torch.nn.Module):
        def __init__(self, embed_dim, num_heads):
            super().__init__()
            made.append((embed_dim, num_heads))

        def forward(self, x, **options):
            return 0 * x

    model = AttentionOnly(5, None, embed_dim=8, num_heads=2, layers=2, attention=Layer)
    assert made == [(8, 2)] * 2
    assert model(torch.zeros(1, 3, dtype=torch.long)).shape == (1, 3, 5)


@pytest.mark.parametrize("is_causal", [False, True])
def test_maps_are_those_of_the_same_pass(is_causal):
    torch.manual_seed(0)
    model = AttentionOnly(20, 9, num_heads=2, layers=2, is_causal=is_causal, outputs=3)
    tokens = torch.randint(20, (2, 7))
    logits, maps = model.with_weights(tokens)
    torch.testing.assert_close(model(tokens), logits)
    assert logits.shape == (2, 7, 3, 20)
    assert [w.shape for w in maps] == [(2, 2, 7, 7)] * 2
    assert all(w.triu(1).any() != is_causal for w in maps)
    later = tokens.clone()
    later[:, 5:] = (later[:, 5:] + 1) % 20
    same = torch.allclose(model(later)[:, :5], model(tokens)[:, :5], atol=1e-6)
    assert same == is_causal


def test_translator_does_not_hear_what_it_will_say():
    torch.manual_seed(0)
    model = Translator(20, 12, num_heads=2)
    (source, said), _ = data.cipher(seeded(), batch=2)
    logits, weights = model.with_weights(source, said)
    torch.testing.assert_close(model(source, said), logits)
    assert weights.shape == (2, 2, 12, 12)
    said = said.clone()
    said[:, 6:] = 0
    torch.testing.assert_close(model(source, said)[:, :6], logits[:, :6])
    assert not torch.allclose(model(source.flip(1), said), logits)


def test_training_learns_and_repeats_itself(capfd):
    def run():
        torch.manual_seed(0)
        model = AttentionOnly(5, 3)
        losses = train.fit(model, lambda g: data.reversal(g, 64, 3, 5), steps=60, lr=0.02)
        return losses, train.accuracy(model, data.reversal(seeded(7), 500, 3, 5)), model

    losses, accuracy, model = run()
    assert len(losses) == 60
    assert losses[-1] < losses[0] / 3
    assert accuracy > 0.9
    assert not model.training
    assert run()[:2] == (losses, accuracy)
    assert capfd.readouterr().err == "", "the bar is no warning"


def test_another_loss_is_a_function_of_outputs_and_targets():
    model = torch.nn.Linear(3, 3, bias=False)

    def draw(generator):
        x = torch.randn(64, 3, generator=generator)
        return data.Batch((x,), 2 * x)

    losses = train.fit(model, draw, steps=200, lr=0.05, loss=torch.nn.functional.mse_loss)
    assert losses[-1] < 1e-3
    torch.testing.assert_close(model.weight.detach(), 2 * torch.eye(3), rtol=0, atol=0.05)


def test_ignored_targets_do_not_count():
    logits = torch.eye(3)[None].requires_grad_()
    targets = torch.tensor([[0, data.IGNORE, 1]])
    loss = train.cross_entropy(logits, targets)
    expected = -(logits.log_softmax(-1)[0, 0, 0] + logits.log_softmax(-1)[0, 2, 1]) / 2
    torch.testing.assert_close(loss, expected)
    share = train.accuracy(torch.nn.Identity(), data.Batch((logits.detach(),), targets))
    assert share == 0.5


def test_loss_that_explodes_is_named():
    model = AttentionOnly(5, 3)
    said = r"the loss is .* at step \d+; try a smaller lr than 1e\+20"
    with pytest.raises(ValueError, match=said):
        train.fit(model, lambda g: data.reversal(g, 8, 3, 5), steps=20, lr=1e20)


def test_listing_is_the_code_without_its_docstring():
    shown = str(listing(data.reversal, train.cross_entropy))
    assert "def reversal(" in shown
    assert "def cross_entropy(" in shown
    assert '"""' not in shown
    assert shown in listing(data.reversal, train.cross_entropy)._repr_markdown_()
    compile(shown, "listing", "exec")
