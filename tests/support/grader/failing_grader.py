"""Loaded into workers of dask by tests: here a grader is broken for who is called so."""

from attngrade import grader
from support.grader.results import passes

grade = grader.grade


def brittle(order, settings):
    """Nothing that a notebook may hold does this to an honest grader, so that a test must."""
    if order.student == "broken":
        raise RuntimeError("it is broken")
    return grade(order, settings) if order.student == "anna" else passes(order, settings)


def dask_setup(worker) -> None:
    """Dask calls this when a worker starts."""
    grader.grade = brittle
