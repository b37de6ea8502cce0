"""What does an error of torch or Python mean to whoever meets it for the first time?"""

import re

from torch import Tensor

from attncourse.grading.compare import Raised
from attncourse.grading.explain.asked import Asked
from attncourse.grading.observe import Case

SIZES = "Two tensors meet whose sizes do not fit."
INDEX = "An index is a whole number or a tensor of them; a list or a result of / is none."
ARGUMENTS = "A function is called with other arguments than it takes; the error below names it."
SCALAR = (
    "int(), float(), .item() and the functions of math take one number; torch has others for whole "
    "tensors."
)
MEETING = (  # the two sizes that do not fit, in the words of torch
    r"tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
    r"\(\d+x(\d+) and (\d+)x\d+\)",
    r"dimensions of batch2 tensor to be: \[\d+, (\d+)\] but got: \[\d+, (\d+)\]",
)
# Words of an error, and what to make of them.
MEANINGS = (
    ("Boolean value of Tensor with more than one value",
     "A whole tensor is asked whether it is true, by if, and, or, not, min, max or filter. Decide "
     "for each number, as torch.where does; or ask whether it is None."),
    ("Sizes of tensors must match except in dimension",
     "torch.cat joins along dim; in all other axes its parts must be equally long. Along which "
     "axis do they differ, and along which should they be joined?"),
    ("stack expects each tensor to be equal size",
     "torch.stack makes a new axis of equal parts; parts of several lengths are joined by "
     "torch.cat, along the axis in which they differ."),
    ("Index tensor must have the same number of dimensions",
     "gather and scatter need an index with as many axes as the tensor has; here one of the two "
     "has more."),
    ("Expected dtype int32/int64 for index", INDEX),
    ("must be integers or slices, not", INDEX),
    ("tensors used as indices must be", INDEX),
    ("cannot be converted to Scalar", SCALAR),
    ("only one element tensors can be converted", SCALAR),
    ("Expected size for first two dimensions of batch2", SIZES),
    ("mat1 and mat2 shapes cannot be multiplied", SIZES),
    ("must match the size of tensor b", SIZES),
    ("expected m1 and m2 to have the same", SIZES),
    ("The expanded size of the tensor",
     "expand makes an axis of size 1 longer, and -1 keeps its size; no other size can change."),
    ("Size does not match at dimension",
     "The index of gather or scatter is larger than the tensor along an axis that is not picked "
     "from: its axes stand in another order, or it belongs to the transposed tensor."),
    ("is out of bounds for", "An index points beyond the end of its axis."),
    ("index out of range", "An index points beyond the end of its axis."),
    ("Dimension out of range",
     "An axis is named that the tensor does not have; print its shape in front of this line."),
    ("is invalid for input of size",
     "The sizes asked for hold more or fewer numbers than there are: print the shape of the tensor "
     "beside the sizes."),
    ("view size is not compatible",
     "view cannot read across a transpose or another exchange of axes: call .contiguous() before "
     "it, or use reshape or flatten."),
    ("before Module.__init__() call",
     "The class is a module of torch, which must be set up first: begin __init__ with "
     "super().__init__()."),
    ("'Tensor' object is not callable",
     "A tensor is called as if it were a function: brackets stand behind its name, or a result was "
     "passed to check in place of the function."),
    ("'tuple' object is not callable",
     "A tuple is called as if it were a function. Were results passed to check, instead of the "
     "function or class itself?"),
    ("NoneType",
     "None is used where a tensor or a number belongs: ask first whether an argument that may be "
     "None is None, and look whether a function that you call returns something."),
    ("positional argument", ARGUMENTS),
    ("unexpected keyword argument", ARGUMENTS),
    ("modified by an inplace operation",
     "A tensor is changed in place that the gradient still needs: write a = a + b, not a += b."),
)  # fmt: skip
BY_KIND = {
    "AssertionError": "An assert stops the answer. Where an error is asked, raise it: assert is "
    "for what can never happen, and python -O leaves it out.",
    "NameError": "The name {0} is used, but nothing was assigned to it: a missing import, another "
    "spelling, or a variable of another cell.",
    "UnboundLocalError": "A variable is read before it is given a value in this function.",
    "ZeroDivisionError": "Something is divided by 0.",
    "RecursionError": "The function calls itself without end.",
}


def meaning_of_errors(asked: Asked) -> str:
    """The one sentence that all errors of an answer mean; '' where they mean several things.

    Where some calls give results, most of those that are wrong must raise.
    """
    if 2 * len(asked.raised) < len(asked.wrong):
        return ""
    found = {_meaning(asked, error) for error in asked.raised}
    return found.pop() if len(found) == 1 else ""


def _meaning(asked: Asked, error: Raised) -> str:
    known = (means for words, means in MEANINGS if words in error.message)
    means = next(known, BY_KIND.get(error.kind, ""))
    if means == SIZES:
        return f"{SIZES}{_sizes(asked, error.message)}"
    return means.format(*re.findall(r"'(\w+)'", error.message)[:1]) if "{0}" in means else means


def _sizes(asked: Asked, message: str) -> str:
    """The two sizes that meet in the first call that raises, and which inputs have them."""
    call = next((x for x in asked.calls if isinstance(x.seen, Raised) and x.case), None)
    found = [re.search(pattern, message) for pattern in MEETING]
    sizes = next((tuple(map(int, x.groups())) for x in found if x), ())
    if call is None or call.seen.message != message or len(set(sizes)) != 2:
        return ""
    owners = [_owners(asked, call.case, size) for size in sizes]
    told = [f"{size} is {owner}" for size, owner in zip(sizes, owners, strict=True) if owner]
    return f" In the call '{call.label}' {', and '.join(told)}." if told else ""


def _owners(asked: Asked, case: Case, size: int) -> str:
    """The inputs that are so long, along which axes."""
    named = zip(asked.arguments, case.args, strict=False)
    axes = [
        f"the size of `{name}` along axis {axis}"
        for name, x in named
        if isinstance(x, Tensor)
        for axis, length in enumerate(x.shape)
        if length == size
    ]
    return " and ".join(axes[:2])
