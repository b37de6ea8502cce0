"""What a package of the course does where nothing else of it is: ``python -I tools/try_dist.py``.

`make dist` runs it in an environment that holds the wheel, or the sdist, and what it asks for. An exercise is
solved, a wrong answer is told what it is, and what is no Python file is there as well.
"""

import sys
from importlib import metadata, resources
from pathlib import Path

import torch

import attncourse
import attncourse.show  # what draws is installed, too
from attncourse.grading import CheckFailed, check
from attncourse.lab.models import manual


def split_heads(x, num_heads):
    batch, length, width = x.shape
    return x.view(batch, length, num_heads, width // num_heads).transpose(1, 2)


def without_transpose(x, num_heads):
    batch, length, width = x.shape
    return x.view(batch, num_heads, length, width // num_heads)


def main() -> None:
    place = Path(attncourse.__file__)
    assert Path(sys.prefix) in place.parents, f"this is not the installed package: {place}"
    version = metadata.version("attncourse")
    assert attncourse.__version__ == version
    assert resources.files("attncourse").joinpath("py.typed").is_file()
    check("split_heads", split_heads)
    try:
        check("split_heads", without_transpose)
    except CheckFailed:
        print(f"attncourse {version} judges answers; torch {torch.__version__}.")
    else:
        raise AssertionError("a wrong answer passed")
    print(manual().write("The with statement"))


if __name__ == "__main__":
    main()
