"""What does an error of torch or Python mean to whoever meets it for the first time?"""

from attncourse.grading.explain.asked import Asked

SIZES = (
    "Two tensors meet whose axes differ in size; print both shapes in front of this line. A "
    "transposition too few or too many does it, a sum without keepdim=True, a table of positions "
    "that is longer than the text, or torch.cat along another axis than that of the tokens."
)
INDEX = "An index is made of whole numbers: / gives others, // and .long() do not."
SCALAR = (
    "int(), float(), .item() and the functions of math take one number; torch has others for whole "
    "tensors."
)
# Words of an error, and what to make of them.
MEANINGS = (
    ("Boolean value of Tensor with more than one value",
     "A whole tensor is asked whether it is true, by if, and, or, not, min, max or filter. Decide "
     "for each number, as torch.where does; or ask whether it is None."),
    ("Sizes of tensors must match except in dimension",
     "torch.cat joins along dim; in all other axes its parts must be equally long. Print their "
     "shapes: along which axis do they differ?"),
    ("stack expects each tensor to be equal size",
     "torch.stack makes a new axis of equal parts; parts of several lengths are joined by "
     "torch.cat, along the axis in which they differ."),
    ("Index tensor must have the same number of dimensions",
     "gather and scatter need an index with as many axes as the tensor has: put the missing ones "
     "in front, and expand them."),
    ("Expected dtype int32/int64 for index", INDEX),
    ("must be integers or slices, not", INDEX),
    ("tensors used as indices must be", INDEX),
    ("cannot be converted to Scalar", SCALAR),
    ("only one element tensors can be converted", SCALAR),
    ("Expected size for first two dimensions of batch2", SIZES),
    ("mat1 and mat2 shapes cannot be multiplied", SIZES),
    ("must match the size of tensor b", SIZES),
    ("expected m1 and m2 to have the same", SIZES),
    ("The expanded size of the tensor", SIZES),
    ("Size does not match at dimension",
     "The index of gather or scatter is larger than the tensor along an axis that is not picked "
     "from: its axes stand in another order, or it belongs to the transposed tensor."),
    ("is out of bounds for", "An index points beyond the end of its axis."),
    ("index out of range", "An index points beyond the end of its axis."),
    ("Dimension out of range",
     "An axis is named that the tensor does not have; print its shape in front of this line."),
    ("is invalid for input of size",
     "The sizes asked for hold more or fewer numbers than there are: take them from the shape of "
     "the tensor, not from an example."),
    ("view size is not compatible",
     "view cannot read across a transpose or another exchange of axes: call .contiguous() before "
     "it, or use reshape or flatten."),
    ("before Module.__init__() call",
     "The class is a module of torch, which must be set up first: begin __init__ with "
     "super().__init__()."),
    ("'Tensor' object is not callable",
     "A tensor is called as if it were a function. Was a result passed to check, instead of the "
     "function or class itself?"),
    ("'tuple' object is not callable",
     "A tuple is called as if it were a function. Were results passed to check, instead of the "
     "function or class itself?"),
    ("NoneType",
     "None is used where a tensor or a number belongs: ask first whether an argument that may be "
     "None is None, and look whether a function that you call returns something."),
    ("positional argument",
     "A function or class takes other arguments than it is called with: compare the first line of "
     "yours with the stub."),
    ("unexpected keyword argument",
     "A function or class takes other arguments than it is called with: compare the first line of "
     "yours with the stub."),
    ("modified by an inplace operation",
     "A tensor is changed in place that the gradient still needs: write a = a + b, not a += b."),
)  # fmt: skip
BY_KIND = {
    "AssertionError": "An assert stops the answer. Where an error is asked, raise it: assert is for "
    "what can never happen, and python -O leaves it out.",
    "NameError": "A name is used that nothing has been given: a missing import, another spelling, or "
    "a variable of another cell.",
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
    found = {_meaning(error.kind, error.message) for error in asked.raised}
    return found.pop() if len(found) == 1 else ""


def _meaning(kind: str, message: str) -> str:
    known = (means for words, means in MEANINGS if words in message)
    return next(known, BY_KIND.get(kind, ""))
