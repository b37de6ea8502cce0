"""Associative recall: the last value that was written with a key, and a model that adds keys and values."""

import torch
from torch import Generator

from attncourse.lab.data import IGNORE
from attncourse.lab.models import Recaller
from attncourse.lab.recall import recall, written_times


def drawn(**options):
    (tokens,), targets = recall(Generator().manual_seed(0), **options)
    return tokens, targets


def test_a_question_is_answered_by_the_last_pair_with_its_key():
    places = set()
    for writes in (None, 9):
        tokens, targets = drawn(batch=40, pairs=4, writes=writes, keys=7, values=5)
        read = writes or 4
        times = written_times(tokens, values=5)
        assert tokens.shape == targets.shape == times.shape == (40, read + 4)
        rows = (x.tolist() for x in (tokens, targets, times))
        for row, target, count in zip(*rows, strict=True):
            pairs = [divmod(token, 6) for token in row[:read]]
            asked = [divmod(token, 6) for token in row[read:]]
            assert all(value < 5 for _, value in pairs)
            assert all(value == 5 for _, value in asked)
            assert sorted(key for key, _ in asked) == sorted({key for key, _ in pairs})
            assert target == [IGNORE] * read + [dict(pairs)[key] for key, _ in asked]
            keys = [key for key, _ in pairs]
            before = [keys[:t].count(key) for t, (key, _) in enumerate(pairs + asked)]
            assert count == before
            places.add((writes, asked[0][0], keys.index(asked[0][0])))
    assert len({place for place in places if place[0] is None}) > 4 * 7 * 0.7, "no order is known"


def test_a_recaller_sees_key_plus_value():
    torch.manual_seed(0)
    model = Recaller(keys=7, values=5, embed_dim=8, num_heads=2, layers=2)
    tokens, _ = drawn(batch=3, pairs=4, keys=7, values=5)
    summed = model.token.key.weight[tokens // 6] + model.token.value.weight[tokens % 6]
    assert model.token(tokens).equal(summed)
    logits = model(tokens)
    assert logits.shape == (3, 8, 5)
    later = tokens.clone()
    later[:, 5:] = 0
    torch.testing.assert_close(model(later)[:, :5], logits[:, :5])
    assert not torch.allclose(model(later)[:, 5:], logits[:, 5:])
