"""Trained models: what does one say instead, and what does a wrong fact mean?"""

from collections.abc import Callable, Mapping

from torch import Tensor

from attncourse.grading.compare import difference
from attncourse.grading.explain.asked import Asked

RANDOM = (
    "The same input gets another answer in the next call: in evaluation mode, too, forward draws "
    "something at random, or it keeps something from call to call."
)
# Words of what was seen of a model, and what to make of them. The first that is found counts.
MEANINGS = (
    ("one is not finite", "Alone, an input gets NaN or infinity: does something run over the "
     "samples, as a standard deviation, which one sample does not have?"),
    ("all parameters are finite", "All parameters are finite, so NaN or infinity is made in "
     "forward: by a mask, log(0), 0 / 0, a softmax with nothing to read, or by hand."),
    ("parameters are NaN", "NaN or infinity stands in the parameters themselves: the training "
     "diverged, as with too large a learning rate, or its loss was NaN."),
    ("with the same", RANDOM),
    ("asked twice", RANDOM),
    ("it still", "With other numbers in its parameters it is as good, but for a factor at most: "
     "what it knows stands in forward, or where model.parameters() does not see it."),
    ("knows the order", "forward shifts, flips, indexes, or has a mask that leaves one key: which "
     "token is said where should be learned."),
    ("in a batch: no", "What it says of one input depends on the others in its batch. Does a norm "
     "or a mean run over them, or is the batch read as the sequence (batch_first=True)?"),
    ("unchanged: no", "forward changes what its caller gives it, in place; work on a copy."),
    ("sure of other", "On what is new it is worse than a guess. One finds this where a few inputs "
     "are learned by heart (draw new ones in every step), where the target is another one, or "
     "where the training diverged or has not begun."),
    ("than guess", "On new inputs it does little more than guess. Is it trained, with new ones in "
     "every step, towards what is asked? Is the learning rate too large?"),
    ("not there yet", "It learned something, but not for all inputs: were they drawn as the check "
     "draws them, new ones in every step, and for long enough?"),
    ("difference where it should", "What should be read makes no difference, for other parameters "
     "neither: is there attention over all places, and does a mask or a window hide some?"),
    ("the order of all but", "It cannot tell in which order these stand. Where, in front of "
     "attention, do they get their places?"),
)  # fmt: skip


def meaning_of_facts(*own: tuple[str, str]) -> Callable[[Asked], str]:
    """An explainer for `Facts` about a model: what the first wrong fact means.

    Args:
        own: words of a fact, or of what was seen of it, and their meaning; asked before `MEANINGS`.
    """

    def explainer(asked: Asked) -> str:
        for fact in asked.differs:
            told = f"{fact}: {difference(asked.expected[fact], asked.seen[fact])}"
            return next((says for words, says in (*own, *MEANINGS) if words in told), "")
        return ""

    return explainer


def said_instead(
    said: Tensor,
    right: Tensor,
    looks: Mapping[str, Tensor],
    alike: Callable[[Tensor, Tensor], bool],
) -> str:
    """What a model says of whole sequences: the first that is alike, or ''.

    Args:
        said, right: (b, n), what it says and what it should say.
        looks: what else this model may say, by the words for it.
        alike: are two of them the same, but for a few?
    """
    n = right.size(1)
    orders = {
        "it is in the opposite order": right.flip(1),
        "it says the same of every input": said[:1].expand_as(said),
        "it says the same at every place": said[:, :1].expand_as(said),
    }
    for words, other in (dict(looks) | orders).items():
        if alike(said, other):
            return words
    if alike(said[:, 1:], right[:, : n - 1]):
        return "it is one place late"
    return "it is one place early" if alike(said[:, : n - 1], right[:, 1:]) else ""
