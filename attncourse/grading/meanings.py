"""What errors of torch and Python mean, where they say little to whoever meets them for the first time."""

SIZES = (
    "Two tensors meet whose axes differ in size; print both shapes in front of this line. A transposition too few or too many does it, a "
    "sum without keepdim=True, a table of positions that is longer than the text, or torch.cat along another axis than that of the tokens."
)
# Words of an error, and what to make of them.
MEANS = (
    ("Boolean value of Tensor with more than one value", "A whole tensor is asked whether it is true, by if, and, or, not, min, max or "
     "filter. Decide for each number, as torch.where does; or ask whether it is None."),
    ("Sizes of tensors must match except in dimension", "torch.cat joins along dim; in all other axes its parts must be equally long. "
     "Print their shapes: along which axis do they differ?"),
    ("stack expects each tensor to be equal size", "torch.stack makes a new axis of equal parts; parts of several lengths are joined by "
     "torch.cat, along the axis in which they differ."),
    ("Index tensor must have the same number of dimensions", "gather and scatter need an index with as many axes as the tensor has: put "
     "the missing ones in front, and expand them."),
    ("Expected dtype int32/int64 for index", "An index is made of whole numbers: / gives others, // and .long() do not."),
    ("must be integers or slices, not", "An index is made of whole numbers: / gives others, // and .long() do not."),
    ("tensors used as indices must be", "An index is made of whole numbers: / gives others, // and .long() do not."),
    ("cannot be converted to Scalar", "int(), float(), .item() and the functions of math take one number; torch has others for whole tensors."),
    ("only one element tensors can be converted", "int(), float(), .item() and the functions of math take one number; torch has others for "
     "whole tensors."),
    ("Expected size for first two dimensions of batch2", SIZES),
    ("mat1 and mat2 shapes cannot be multiplied", SIZES),
    ("must match the size of tensor b", SIZES),
    ("Size does not match at dimension", "The index of gather or scatter is larger than the tensor along an axis that is not picked from: its "
     "axes stand in another order, or it belongs to the transposed tensor."),
    ("is out of bounds for", "An index points beyond the end of its axis."),
    ("is invalid for input of size", "The sizes asked for hold more or fewer numbers than there are: take them from the shape of the tensor, "
     "not from an example."),
    ("view size is not compatible", "view cannot read across a transpose or another exchange of axes: call .contiguous() before it, or use "
     "reshape or flatten."),
    ("before Module.__init__() call", "The class is a module of torch, which must be set up first: begin __init__ with "
     "super().__init__()."),
    ("'Tensor' object is not callable", "A tensor is called as if it were a function. Was a result passed to check, instead of the "
     "function or class itself?"),
    ("'tuple' object is not callable", "A tuple is called as if it were a function. Were results passed to check, instead of the "
     "function or class itself?"),
    ("positional argument", "A function or class takes other arguments than it is called with: compare the first line of yours with the "
     "stub."),
    ("modified by an inplace operation", "A tensor is changed in place that the gradient still needs: write a = a + b, not a += b."),
)  # fmt: skip


def meaning(errors: list[str]) -> str:
    """The one sentence that all these errors mean; '' where they mean several things, or one is not known."""
    found = {next((means for words, means in MEANS if words in error), "") for error in errors}
    return found.pop() if len(found) == 1 else ""
