"""The instruments that look at mutants are looked at: slips, sentences, truth, limits."""

import ast
import os
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from attncourse.grading.exercise import Calls
from attncourse.grading.observe import Case
from fresh.apart import Lost, TooLong, apart, limited
from fresh.evidence import Evidence, Questions
from fresh.heard import leading, sentences
from fresh.operators import OPERATORS
from fresh.truth import checked

EXAMPLES = {  # a slip, and what it makes of a line
    "arithmetic": ("a + b", "a - b"),
    "whole division": ("a // b", "a / b"),
    "power": ("a ** 0.5", "a"),
    "boundary": ("a <= b", "a < b"),
    "direction": ("a <= b", "a >= b"),
    "off by one": ("x[0]", "x[1]"),
    "step left out": ("(x / 2).softmax(-1)", "x / 2"),
    "operands exchanged": ("q @ k", "k @ q"),
    "operand left out": ("a * b", "b"),
    "other axis": ("x.sum(dim=-1)", "x.sum(dim=-2)"),
    "order of axes": ("torch.einsum('bhnd,bhmd->bhnm', q, k)", "torch.einsum('bhnd,bhmd->bhmn', q, k)"),
    "keyword left out": ("x.sum(-1, keepdim=True)", "x.sum(-1)"),
    "other argument": ("f(key)", "f(value)"),
    "slice": ("x[:n]", "x[:n + 1]"),
    "range": ("range(n)", "range(0, n - 1)"),
    "negation": ("x[~mask]", "x[mask]"),
    "true and false": ("True", "False"),
    "branches exchanged": ("torch.where(m, x, 0)", "torch.where(m, 0, x)"),
    "line left out": ("x[0] = 1", "pass"),
}  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda x: x.name)
def test_every_operator_makes_its_slip(operator):
    before, after = EXAMPLES[operator.name]
    (line,) = ast.parse(before).body
    made = []
    for node in ast.walk(line):
        changes = map(ast.fix_missing_locations, operator.changes(node, ["key", "value"]))
        made += [before.replace(ast.unparse(node), ast.unparse(new)) for new in changes]
    assert after in made
    assert before not in made


@pytest.mark.quick
def test_a_comparison_of_numbers_leads_nowhere():
    plain = [
        "2 samples, output: 12 of 12 numbers differ; at [0, 0] expected 1.5, got -inf",
        "the number: 7 is not right",
        "5 tokens, output: expected 3, got 4",
        "... and 4 more",
    ]
    assert sentences(plain) == []
    said = [
        "The numbers are 2 times what they should be.",
        "x, output: expected shape (2, 3), got (3, 2)",
    ]
    assert sentences([*plain, *said]) == said


@pytest.mark.quick
def test_what_everybody_hears_leads_nowhere():
    raised = "{} tokens, output: raised RuntimeError: size {} is wrong, in: x = y.view({})"
    rows = [
        {"shown": [f"Something is wrong with number {k}.", *["It is this."] * (k == 3)], "code": ""}
        for k in range(12)
    ]
    assert [len(x) for x in leading(rows)] == [0] * 3 + [1] + [0] * 8
    rows = [{"shown": [raised.format(k, k, k)], "code": "x = y.view(0)\n"} for k in range(12)]
    assert [len(x) for x in leading(rows)] == [1] + [0] * 11, "who quotes the line leads to it"


def tiny(spec, *args):
    """An exercise with one call, as far as evidence asks for it."""
    return SimpleNamespace(judge=Calls(spec, lambda seed: [Case("a call", args)]))


X = torch.arange(6.0).view(2, 3) + 1
TRUE_AND_FALSE = (  # an answer, what is true of it, and what is not
    (lambda x: 4 * x, "The numbers are 2 times what they should be.", "The numbers are 3 times what they should be."),
    (lambda x: (2 * x).T, "The numbers are right, but the axes stand in another order.", "The numbers are right, but axes are joined or split."),
    (lambda x: 2 * x.detach(), "The results are right, but no gradient flows back to x.", "The numbers are 2 times what they should be."),
    (lambda x: x.mul_(2), "The results are right, but an input is changed in place: x.", "The results are right, but no gradient flows back to x."),
    (lambda x: 4 * x, "a call, output: 6 of 6 numbers differ; at [0, 0] expected 2, got 4", "a call, output: 6 of 6 numbers differ; at [0, 0] expected 2, got 3"),
    (lambda x: 2 * x[:1], "a call, output: expected shape (2, 3), got (1, 3)", "a call, output: raised IndexError"),
    (lambda x: x[5], "a call, output: raised IndexError: index 5 is out", "a call, output: raised KeyError: 5"),
    (lambda x: (2 * x).flip(0), "The rows stand in the opposite order.", "The right results are averaged over the rows; keep those of each row."),
    (lambda x: (2 * x).mean(1, keepdim=True), "The right results are averaged over the columns; keep those of each column.", "Everything is moved by one row."),
    (lambda x: 2 * x + 1, "Every number is 1 too large.", "Every number is 1 too small."),
    (lambda x: 2 * x + torch.eye(3)[:2], "In the call 'a call' all that is wrong stands at columns 0, 1; the rest is right within 0.0003.", "This is the square of the right result."),
    (lambda x: 2 * x + 1, "a call, output: 6 of 6 numbers differ; at [1, 0] expected 8, got 9", "The results are right, but no gradient flows back to x."),
)  # fmt: skip


@pytest.mark.quick
@pytest.mark.parametrize(("answer", "true", "false"), TRUE_AND_FALSE)
def test_truth_is_told_from_what_is_false(answer, true, false):
    evidence = Evidence(Questions(tiny(lambda x: 2 * x, X), 0), answer)
    assert checked(true, evidence) is True
    assert checked(false, evidence) is False
    assert checked("Nobody knows whether this is so.", evidence) is None


@pytest.mark.quick
def test_reading_of_keys_is_observed():
    def attention(query, key, value, mask=lambda s: s.tril()):
        scores = query @ key.mT / 5
        hidden = mask(torch.ones_like(scores)) == 0
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value

    late = partial(attention, mask=lambda s: s.tril(1))
    q = torch.randn(2, 3, 4, 5)
    exercise = tiny(lambda query, key, value: attention(query, key, value), q, q.flip(2), q + 1)
    evidence = Evidence(Questions(exercise, 0), lambda *args: late(*args))
    assert checked("Of 16 pairs query 1 reads key 2, and should not.", evidence) is True
    assert checked("Of 16 pairs query 1 reads key 3, and should not.", evidence) is False
    assert checked("query 1 does not read key 0, and should.", evidence) is False


def endless():
    with limited(0.2):
        while True:
            pass


def test_mutants_without_end_are_stopped():
    with pytest.raises(TooLong):
        endless()


def test_a_lost_process_is_told():
    ((_, ended),) = apart(os._exit, [3], 60)
    assert isinstance(ended, Lost)
    assert "ended with 3" in str(ended)
