"""An answer that is or calls the course's own code hears a word about it; any other hears none."""

from functools import partial

import pytest
import torch
from torch import nn

import attncourse.steps
from attncourse import layers, masks, spec, steps
from attncourse.grading import check, load, names
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


def closed_over(function):
    return lambda *args: function(*args)


BORROWED = {
    "steps.attention": (
        attention, partial(attention), closed_over(attention), helper, by_its_whole_name, imports_inside, Calls, Calls(),
    ),
    "masks.causal": (lambda n, m: masks.causal(n, m),),
    "spec.scaled_dot_product_attention": (in_a_function_inside,),
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
        borrowed = [style for style, x in load(name).accepted.items() if course_code(x)]
        assert not borrowed, name


def test_check_judges_it_like_any_other_and_says_a_word(capsys):
    check("scaled_dot_product_attention", attention)
    said = capsys.readouterr().out
    assert "scaled_dot_product_attention: passed, 3 of 3 points" in said
    assert "uses attncourse.steps.attention, which is the course's own code" in said
    check(
        "scaled_dot_product_attention",
        lambda q, k, v: own(q, k, v)[:1] + ((q @ k.mT / q.size(-1) ** 0.5).softmax(-1),),
    )
    assert "own code" not in capsys.readouterr().out
