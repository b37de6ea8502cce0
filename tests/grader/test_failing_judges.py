"""A failure belongs to somebody: where a judge fails, another one goes on, and nobody gets 0 points for it."""

import pytest
from support.grader import fake_judges
from support.grader.fake_judges import RIGHT, WRONG

from attncourse.grading.verdict import Verdict
from attngrade import File, Order, grader
from attngrade.settings import Settings

FILES = File("one", "d1", b"{}"), File("two", "d2", b"{}")


@pytest.fixture
def graded(monkeypatch, tmp_path):
    def grade(fake, student="anna", files=FILES[:1], seconds=120):
        monkeypatch.setattr(grader, "judge", fake)
        settings = Settings(b"s" * 32, seconds, course=str(tmp_path / "seen"))
        return grader.grade(Order(student, files), settings)

    return grade


def test_a_judge_that_dies_once_is_replaced(graded):
    result = graded(fake_judges.dying)
    assert result.files[0].verdicts == (RIGHT, WRONG)
    assert result.complete


def test_what_judges_die_at_is_not_graded_and_the_rest_is(graded):
    result = graded(fake_judges.dying, student="always")
    assert result.files[0].verdicts == (
        RIGHT,
        Verdict("b", "not graded", 0, 1, ("The judge ended.",)),
    )
    assert not result.complete


def test_a_file_without_a_sandbox_is_not_graded_and_others_are(graded):
    first, second = graded(fake_judges.refused, files=FILES).files
    assert first.verdicts == ()
    assert first.problems == ("Not graded: There is no sandbox.",)
    assert second.verdicts == (RIGHT,)


def test_a_judge_that_says_nothing_is_ended(graded, monkeypatch):
    monkeypatch.setattr(grader, "PATIENCE", 0.5)
    result = graded(fake_judges.silent, seconds=0.01)
    assert result.files[0].problems == ("Not graded: The judge took too long.",)


def test_ctrl_c_is_for_the_grader_alone(graded):
    """A judge that ignored it only once it ran wrote a traceback now and then: 15 of 300 did."""
    result = graded(fake_judges.deaf)
    assert result.files[0].problems == ("Not graded: It ignores Ctrl-C.",)


@pytest.mark.parametrize(("what", "why"), [("memory", "no memory"), ("time", "The judge ended.")])
def test_a_judge_has_limits_of_its_own(graded, what, why):
    result = graded(fake_judges.greedy, student=what)
    assert result.files[0].problems == (f"Not graded: {why}",)
    assert not result.complete
