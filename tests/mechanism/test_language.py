"""The course's language model: it loads, cuts text as it should, and is as good as its card says."""

import json

import pytest
import torch

from attncourse.lab.models import LanguageModel, Tokenizer, manual
from attncourse.lab.models.language import FOLDER

# Written for this test, in the manner of a manual.
SENTENCE = (
    "The with statement is used to wrap the execution of a block with methods defined by a context "
    "manager. If the suite raises an exception, the exception is passed to the method."
)
shipped = pytest.mark.skipif(
    not (FOLDER / "weights.safetensors").exists(), reason="the weights are still being trained"
)


@pytest.fixture(scope="module")
def pieces() -> list[str]:
    return json.loads((FOLDER / "vocabulary.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return manual()


def test_vocabulary_names_each_piece_once(pieces):
    assert len(pieces) == len(set(pieces)) == 4096
    assert pieces[0] == "<start>"
    letters = {piece for piece in pieces if len(piece) == 1}
    assert letters >= set("abcdefghijklmnopqrstuvwxyz0123456789()[]{}:.,'\"\n ")


@pytest.mark.parametrize(
    "text",
    [
        SENTENCE,
        "def f(x, *args): return [x ** 2 for x in args if x != 3]",
        "  two  spaces, a\nbreak, and 1234567890",
        "unheardofwordsarecutintopieces",
        "",
    ],
)
def test_text_comes_back(pieces, text):
    tokenizer = Tokenizer(pieces)
    numbers = tokenizer.encode(text)
    assert tokenizer.decode(numbers) == text
    assert tokenizer.decode([0, *numbers]) == text, "the start token is no text"
    assert all(0 < number < len(tokenizer) for number in numbers)


def test_unknown_characters_are_left_out_and_doubles_refused(pieces):
    tokenizer = Tokenizer(pieces)
    assert tokenizer.decode(tokenizer.encode("caf\u00e9 \u2192 tea")) == "caf  tea"
    for wrong in (["a", "b"], ["<start>", "a", "a"], []):
        with pytest.raises(ValueError, match="<start>"):
            Tokenizer(wrong)


@shipped
def test_the_model_is_as_its_card_says(model):
    card = json.loads((FOLDER / "card.json").read_text(encoding="utf-8"))
    count = sum(p.numel() for p in model.parameters())
    assert count == 2_563_200
    assert not model.training
    assert all(p.dtype == torch.float32 and p.isfinite().all() for p in model.parameters())
    losses = [card[name] for name in card if "held" in name or "pair" in name or "single" in name]
    assert losses
    assert model.loss(SENTENCE) < 4.5 < torch.tensor(4096.0).log()
    scrambled = " ".join(reversed(SENTENCE.split()))
    assert model.loss(SENTENCE) < model.loss(scrambled) - 1.0, "order matters to it"


@shipped
def test_it_writes_on_and_repeats_itself(model):
    prompt = "The with statement"
    one, two, other = (model.write(prompt, length=12, seed=seed) for seed in (0, 0, 1))
    assert one == two != other
    assert one.startswith(prompt)
    best = [model.write(prompt, length=8, temperature=0.0, seed=seed) for seed in (0, 1)]
    assert best[0] == best[1], "the likeliest token needs no seed"
    assert len(model.read(model.write("", length=5))[0]) <= 6
    with pytest.raises(ValueError, match="temperature must be 0 or more"):
        model.write(prompt, temperature=-1.0)


@shipped
def test_a_cache_changes_the_time_and_not_the_text(model):
    prompts = ["The with statement", "If"]
    options = {"length": 10, "top_k": 50, "top_p": 0.95}
    both = model.write(prompts, **options)
    assert both == model.write(prompts, **options, use_cache=False)
    assert both == [model.write(x, **options, seed=k) for k, x in enumerate(prompts)]
    tokens = model.read(SENTENCE)[1]
    caches = model.new_caches(1, tokens.size(1))
    parts = [model.decode(part, caches) for part in tokens.split((5, 1, tokens.size(1) - 6), dim=1)]
    torch.testing.assert_close(
        torch.cat(parts, dim=1), model(tokens).detach(), rtol=1e-4, atol=1e-4
    )


@shipped
def test_a_long_text_shows_a_bar_and_leaves_no_trace(model, capsys):
    model.write("The", length=3)
    assert capsys.readouterr().out == ""
    model.write("The", length=200)
    shown = capsys.readouterr().out
    assert "/200" in shown
    assert shown.endswith("\r")


@shipped
@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("top_k counts tokens and must be 1 or more; got 0", {"top_k": 0}),
        ("top_p is a probability, 0 to 1; got 1.5", {"top_p": 1.5}),
        ("length must be 0 or more; got -1", {"length": -1}),
    ],
)
def test_what_cannot_be_written_is_refused(model, message, wrong):
    with pytest.raises(ValueError, match=message):
        model.write("The", **wrong)
    with pytest.raises(ValueError, match="expected one prompt or more"):
        model.write([])


@shipped
def test_a_text_without_tokens_has_no_loss(model):
    for text in ("", "\u2192"):
        with pytest.raises(ValueError, match="text must hold one token or more"):
            model.loss(text)


@shipped
def test_maps_are_causal_and_those_of_the_same_pass(model):
    labels, tokens = model.read(SENTENCE)
    assert labels[0] == "<start>"
    assert len(labels) == tokens.size(1)
    logits, maps = model.with_weights(tokens)
    torch.testing.assert_close(model(tokens).detach(), logits)
    assert [m.shape for m in maps] == [(1, 6, len(labels), len(labels))] * 4
    for m in maps:
        assert not m.triu(1).any()
        torch.testing.assert_close(m.sum(-1), torch.ones_like(m[..., 0]))


@shipped
def test_loading_leaves_the_random_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    manual()
    assert torch.rand(3).equal(expected)
