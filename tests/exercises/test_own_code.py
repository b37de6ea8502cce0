"""An answer that is or calls the course's own code is refused; what only has the same names is not."""

from functools import lru_cache, partial

import pytest
import torch
from fresh.sources import right_answers
from torch import nn

import attncourse.steps
from attncourse import layers, masks, spec, steps
from attncourse.grading import CheckFailed, check, load, names
from attncourse.grading.own_code import course_code
from attncourse.steps import attention

pytestmark = pytest.mark.quick


def helper(query, key, value):
    return steps.attention(query, key, value)


class Built(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = layers.MultiHeadAttention(4, 2)


class Inherits(layers.MultiHeadAttention):
    pass


class Calls(nn.Module):
    def forward(self, x):
        return [helper(y, y, y) for y in x]


def imports_inside(query, key, value):
    from attncourse.steps import attention

    return attention(query, key, value)


def by_its_whole_name(query, key, value):
    return attncourse.steps.attention(query, key, value)


def in_a_function_inside(query, key, value):
    def inner():
        return spec.scaled_dot_product_attention(query, key, value)

    return inner()


def imports_only():
    import attncourse.steps as found

    return found


@lru_cache
def remembered(query):
    return steps.attention(query, query, query)


def by_default(query, attend=steps.attention):
    return attend(query, query, query)


class Called:
    def __call__(self, query):
        return remembered(query)


def closed_over(function):
    return lambda *args: function(*args)


BORROWED = {
    "steps.attention": (
        attention, partial(attention), closed_over(attention), helper, by_its_whole_name, imports_inside, Calls, Calls(),
        remembered, by_default, partial(by_default), Called(),
    ),
    "steps": (lambda q: imports_only(),),
    "masks.causal": (lambda n, m: masks.causal(n, m),),
    "spec.dense.scaled_dot_product_attention": (in_a_function_inside,),
    "layers.MultiHeadAttention": (layers.MultiHeadAttention, Built, Built(), Inherits),
}  # fmt: skip


def own(query, key, value):
    weights = (query @ key.mT / query.size(-1) ** 0.5).softmax(-1)
    check, steps = load, "attncourse.steps"
    return weights @ value, check, steps


@pytest.mark.parametrize("name", BORROWED)
def test_the_courses_own_code_is_found(name):
    assert {course_code(answer) for answer in BORROWED[name]} == {f"attncourse.{name}"}


def test_what_people_write_is_their_own():
    def never_ready():
        return later()

    for answer in (own, nn.Linear, nn.Linear(2, 2), torch.ones(2), 3, None, "attncourse.steps", [own], Ellipsis,
                   torch.nn.functional.softmax, closed_over(own), partial(own), never_ready, check):  # fmt: skip
        assert course_code(answer) == "", answer
    later = None
    assert later is None
    for name in names():
        borrowed = [style for style, x in right_answers(load(name)).items() if course_code(x)]
        assert not borrowed, name


class SameNames(nn.Module):
    """It has an ``attention`` of its own, and a local one, in a notebook that has imported the course's."""

    def __init__(self):
        super().__init__()
        self.attention, self.layers = nn.Linear(4, 4), nn.ModuleList()

    def forward(self, x, steps=None):
        attention = self.attention
        masks = [x]
        return attention(x) + self.attention.weight + sum(masks), self.layers, steps.causal, x.spec


def test_an_attribute_or_a_local_name_is_no_import():
    reads = lambda x: x.attention.steps, lambda attention: attention(1)  # noqa: E731
    for answer in (SameNames, SameNames(), *reads):
        assert course_code(answer) == "", answer


def rewritten(query, key, value):
    return own(query, key, value)[0], (query @ key.mT / query.size(-1) ** 0.5).softmax(-1)


def test_check_refuses_it(capsys):
    with pytest.raises(CheckFailed):
        check("scaled_dot_product_attention", attention)
    said = capsys.readouterr().out
    assert "scaled_dot_product_attention: failed, 0 of 3 points" in said
    assert "uses attncourse.steps.attention, which is the course's own code" in said
    check("scaled_dot_product_attention", rewritten)
    assert "own code" not in capsys.readouterr().out
