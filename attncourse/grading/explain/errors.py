"""What does an error of torch or Python mean to whoever meets it for the first time?"""

import re

from torch import Tensor

from attncourse.grading.compare import Raised
from attncourse.grading.explain.asked import Asked
from attncourse.grading.observe import Case

SIZES = "Two tensors meet whose sizes do not fit"
INDEX = "An index must be whole, but / gives fractions, and so does torch.tensor of an empty list."
OUTSIDE = (
    "An index points beyond an end of its axis: it is too large, or below 0 where none may be, or "
    "the tensor is too short."
)
ARGUMENTS = "A function is called with other arguments than it takes; the error below names it."
SCALAR = (
    "int(), float(), .item() and the functions of math take one number; torch has others for whole "
    "tensors."
)
# The words of an error, its numbers and names in groups, and what to make of them. A third entry
# must stand in the line that raised: torch says of many operations what it says of expand.
MEANINGS = (
    ("Boolean value of Tensor with more than one value",
     "A whole tensor is asked whether it is true, by if, and, or, not, min, max or filter. Decide "
     "for each number, as torch.where does; or ask whether it is None."),
    ("Sizes of tensors must match except in dimension",
     "torch.cat joins along dim; in all other axes its parts must be equally long. Along which "
     "axis do they differ, and along which should they be joined?"),
    (r"stack expects each tensor to be equal size, but got (.*) at entry \d+ and (.*) at entry",
     "torch.stack joins parts of one shape; these have {0} and {1}. Should they be alike? If not, "
     "torch.cat joins parts of several lengths along an axis that they have."),
    ("Expected dtype int32/int64 for index|tensors used as indices must be", INDEX),
    (r"(\w+) (?:index|indices) must be integers or slices, not (\w+)",
     "The index of a {0} must be one whole number or a slice; here it is a {1}."),
    ("cannot be converted to Scalar|only one element tensors can be converted", SCALAR),
    (r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", SIZES),
    (r"mat1 and mat2 shapes cannot be multiplied \(\d+x(\d+) and (\d+)x\d+\)", SIZES),
    (r"dimensions of batch2 tensor to be: \[\d+, (\d+)\] but got: \[\d+, (\d+)\]", SIZES),
    ("The expanded size of the tensor",
     "expand makes an axis of size 1 longer, and -1 keeps its size; no other size can change.",
     "expand"),
    (r"The expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)",
     "Something is put where it does not fit: the place is {0} long, and what comes is {1} long."),
    ("Size does not match at dimension",
     "The index of gather or scatter is larger than the tensor along an axis that is not picked "
     "from: its axes stand in another order, or it belongs to the transposed tensor."),
    ("(list|tuple) index out of range", "A {0} is shorter than its index asks, or empty."),
    ("is out of bounds for|index out of range", OUTSIDE),
    ("Dimension out of range",
     "An axis is named that the tensor does not have; print its shape in front of this line."),
    ("is invalid for input of size",
     "The sizes asked for hold more or fewer numbers than there are: print the shape of the tensor "
     "beside the sizes."),
    ("view size is not compatible",
     "view cannot read across a transpose or another exchange of axes: call .contiguous() before "
     "it, or use reshape or flatten.", "view"),
    ("before Module.__init__() call",
     "The class is a module of torch, which must be set up first: begin __init__ with "
     "super().__init__()."),
    ("'Tensor' object is not callable",
     "A tensor is called as if it were a function: brackets stand behind its name."),
    ("NoneType",
     "None is used where a tensor or a number belongs: ask first whether an argument that may be "
     "None is None, and look whether a function that you call returns something."),
    ("positional argument|unexpected keyword argument", ARGUMENTS),
    ("modified by an inplace operation",
     "A tensor is changed in place that the gradient still needs: write a = a + b, not a += b."),
)  # fmt: skip
BY_KIND = {
    "AssertionError": "An assert stops the answer. Where an error is asked, raise it: assert is "
    "for what can never happen, and python -O leaves it out.",
    "UnboundLocalError": "A variable is read before it is given a value in this function.",
}


def meaning_of_errors(asked: Asked) -> str:
    """What the errors of an answer mean; '' where they mean several things, or where few raise."""
    raised = [_meaning(error) for error in asked.errors.values()]
    if not raised or 2 * len(raised) < len(asked.wrong) or len({means for means, _ in raised}) > 1:
        return ""
    means, found = raised[0]
    return _sizes(asked, found) if means == SIZES else means.format(*found)


def _meaning(error: Raised) -> tuple[str, tuple[str, ...]]:
    """What an error means, and the numbers and names in its message."""
    for words, means, *stands in MEANINGS:
        if found := all(x in error.line for x in stands) and re.search(words, error.message):
            return means, found.groups()
    return BY_KIND.get(error.kind, ""), ()


def _sizes(asked: Asked, first: tuple[str, ...]) -> str:
    """The two sizes that meet in the first call that raises, and which inputs have them.

    Only inputs count that have them in all such calls: in one, a size may be the same by chance.
    """
    raised = [x for x in asked.calls if isinstance(x.seen, Raised) and x.case]
    met, told = [(x.case, _meaning(x.seen)[1]) for x in raised], []
    first = met[0][1] if met else first
    for k, size in enumerate(first if met else ()):
        several = [_owners(asked, case, int(sizes[k])) for case, sizes in met]
        if owners := [x for x in several[0] if all(x in y for y in several)]:
            told.append(f"{size} is the size of {' and '.join(owners[:2])}")
    inputs = f" In the call '{raised[0].label}' {', and '.join(told)}." if told else ""
    return f"{SIZES}: {' and '.join(first)}.{inputs}"


def _owners(asked: Asked, case: Case, size: int) -> list[str]:
    """The inputs that are so long, along which axes."""
    named = zip(asked.arguments, case.args, strict=False)
    return [
        f"`{name}` along axis {axis}"
        for name, x in named
        if isinstance(x, Tensor)
        for axis, length in enumerate(x.shape)
        if length == size
    ]
