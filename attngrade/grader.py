"""Grade one submission: the judge is here, the answer is far away.

The inputs are drawn from a secret and the digest of the submission: nobody can prepare for them, and the
same submission always gets the same.
"""

import hashlib
import hmac
from pathlib import Path

from attncourse.grading.exercise import Exercise
from attncourse.grading.exercises import load, names
from attncourse.grading.verdict import Verdict
from attngrade import Graded, Submission
from attngrade.allow import violations
from attngrade.sandbox.sandbox import Limits, Sandbox
from attngrade.session import Session, not_found
from attngrade.submissions import read


class Grader:
    """Grades submissions one after the other, each in a fresh worker. A context manager.

    Args:
        secret: what the inputs are drawn from.
        seconds: of each cell, and of each exercise.
        limits: of memory, processes and files.
        bubblewrap: False does without.
    """

    def __init__(
        self,
        secret: bytes,
        seconds: float = 120.0,
        limits: Limits | None = None,
        bubblewrap: bool = True,
    ):
        self.secret, self.seconds = secret, seconds
        self.sandbox = Sandbox(limits, bubblewrap)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self) -> None:
        """End the sandbox."""
        self.sandbox.close()

    @property
    def protections(self) -> tuple[tuple[str, str], ...]:
        """What protects, and whether it is in force or why not."""
        return self.sandbox.protections

    @property
    def official(self) -> bool:
        """True when the sandbox hides the machine from the submissions."""
        return self.sandbox.official

    def grade(self, student: str, path: Path, root: Path) -> Graded:
        """Read, run and judge one notebook; never raises for anything that is in it."""
        return self.judge(read(student, path, root), root)

    def judge(self, submission: Submission, root: Path) -> Graded:
        """Run and judge a submission that was read."""
        exercises = [load(name) for one in submission.chapters for name in names(one)]
        verdicts = []
        with Session(self.sandbox, submission.cells, self.seconds) as session:
            absent = session.without_answer(exercises)
            for exercise in exercises:
                verdicts.append(
                    self._verdict(submission, exercise, session, exercise.name in absent)
                )
        file = submission.path.relative_to(root).as_posix()
        problems = *submission.problems, *map(sentence, session.problems)
        return Graded(submission.student, file, submission.digest, tuple(verdicts), problems)

    def _verdict(
        self, submission: Submission, exercise: Exercise, session: Session, is_absent: bool
    ) -> Verdict:
        if verdict := exercise.left_out():
            return verdict
        if banned := tuple(violations(submission.cells, exercise)):
            return Verdict(exercise.name, "not allowed", 0, exercise.points, banned)
        if is_absent:
            return not_found(exercise)
        return session.judge(exercise, self.seed(submission, exercise.name))

    def seed(self, submission: Submission, exercise: str) -> int:
        """The seed of the inputs for this answer."""
        message = f"{submission.digest} {exercise}".encode()
        return int.from_bytes(hmac.digest(self.secret, message, hashlib.sha256)[:4]) >> 1


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
