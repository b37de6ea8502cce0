"""Trained models: what does one say instead, and what does a wrong fact mean?"""

from collections.abc import Callable, Mapping

from torch import Tensor

from attncourse.grading.compare import difference
from attncourse.grading.explain.asked import Asked

RANDOM = (
    "The answer differs from one call to the next: forward draws something at random in evaluation "
    "mode, too."
)
# Words of what was seen of a model, and what to make of them. The first that is found counts.
MEANINGS = (
    ("a class; make an instance", "This is the class; check an instance, a model that is trained."),
    ("are not finite", "Some of what it says is NaN or infinite. Has the training diverged? Try a "
     "smaller learning rate."),
    ("with the same", RANDOM),
    ("asked twice", RANDOM),
    ("it still", "With other numbers in its parameters it is as good: what it knows stands in "
     "forward, or where model.parameters() does not see it."),
    ("in a batch: no", "What it says of one input depends on the others in its batch: each must be "
     "normed and mixed by itself."),
    ("unchanged: no", "forward changes what its caller gives it, in place; work on a copy."),
    ("says about 0", "It says about 0: is the loss a mean that cancels, or the learning rate too "
     "large?"),
    ("not there yet", "It learned, but not enough: train longer, or with another learning rate."),
    ("no better than to say", "It learned nothing. Is it trained on new inputs in every step, and "
     "towards what is asked?"),
    ("too many", "It has too many parameters: make it narrower, or take fewer layers."),
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


def in_place(asked: Asked) -> str:
    """Inputs that are not what they were, before all that may follow from that."""
    changed = (x for x, seen in asked.seen.items() if "unchanged" in x and seen is not True)
    what = next(changed, "").partition(" ")[0]
    return f"forward changes the {what} of its caller in place; work on a copy." if what else ""


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
    orders = {
        "it is in the opposite order": right.flip(1),
        "it is one place late": right.roll(1, 1),
        "it is one place early": right.roll(-1, 1),
        "it says the same of every input": said[:1].expand_as(said),
        "it says the same at every place": said[:, :1].expand_as(said),
    }
    return next(
        (words for words, other in (dict(looks) | orders).items() if alike(said, other)), ""
    )
