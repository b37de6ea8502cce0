"""Which attention? Questions that can be answered before anything is trained, and where the answers lead."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """An attention to begin with.

    Args:
        name: what people call it.
        attention_type: its name in `attncourse.factory.get_attention`.
        chapter: that builds it, without its number.
        because: what speaks for it where the questions lead to it.
    """

    name: str
    attention_type: str
    chapter: str
    because: str


@dataclass(frozen=True)
class Question:
    """A fork.

    Args:
        ask: a question that is answered by yes or no.
        why: what hangs on it.
        yes, no: where the answers lead.
    """

    ask: str
    why: str
    yes: "Question | Choice"
    no: "Question | Choice"


READS_LONG = Question(
    "Must a few tokens see the whole text, such as a question about it?",
    "With windows alone, news of a far token needs a layer for each window that lies between. Through a global "
    "token it needs two.",
    Choice("Windows and global tokens", "longformer", "global_local",
           "The global tokens read all and are read by all; the rest costs what a window costs."),
    Choice("A sliding window, both ways", "sliding_window", "sliding_window",
           "Work and memory grow with the length, not with its square."),
)  # fmt: skip
READS = Question(
    "Are the texts longer than six times the width of the model?",
    "Up to there the projections and the feed-forward network take more work than scores and mix, so an "
    "attention that reads fewer keys saves less than half of a layer.",
    READS_LONG,
    Question(
        "Is it to understand texts, with a model of your choice?",
        "Distances that are learned with a model come with it; they cannot be added to one that you must keep.",
        Choice("Disentangled", "disentangled", "disentangled",
               "Content and distance have matrices of their own. DeBERTa's authors report better results than "
               "RoBERTa's from half of the training data."),
        Choice("Multi-head", "mha", "multi_head",
               "It reads any token exactly, every library has it, and with a fused kernel it stores no scores."),
    ),
)  # fmt: skip
MAY_FORGET = Question(
    "Is the model trained already, with a softmax over all tokens?",
    "The heads of such a model may rest on the first token. A window that throws this token away breaks them.",
    Choice("A window and the first tokens", "mha", "sinks",
           "A cache that keeps the first few tokens and the last ones needs no training at all."),
    Question(
        "Must it keep an impression of all that it has read?",
        "A window has lost all that left it. A state keeps something of everything, and a delta rule replaces what "
        "has changed.",
        Choice("Gated delta rule", "gated_delta", "gated_delta",
               "It looks up what it says before it writes, and it forgets. Put a softmax layer on every few of "
               "them if some things must be found exactly after all."),
        Choice("A sliding window", "sliding_window", "sliding_window",
               "What is near is read exactly, and the cache stops growing at the width of the window."),
    ),
)  # fmt: skip
MUST_FIND = Question(
    "May you choose the model, to train it or to take a released one?",
    "How many heads share keys and values is decided when a model is trained. It decides how many people a card "
    "serves, and how fast: each token that is written reads the whole cache.",
    Question(
        "With 8 key/value heads, do the caches of all conversations fit beside the weights?",
        "Most open models share their keys and values like that, so among them you have the largest choice.",
        Choice("Grouped-query", "gqa", "grouped_query",
               "A model of 32 heads then keeps a quarter and reads a quarter for each token, and in published "
               "trainings it comes close to multi-head attention."),
        Choice("Latent", "mla", "latent",
               "One short vector for each token serves all heads. There are other ways to keep fewer numbers: "
               "fewer key/value heads, windows or states in most layers, fewer bits."),
    ),
    Choice("What it has", "mha", "kv_cache",
           "If its caches do not fit, or it is too slow, store keys and values in fewer bits: that needs no training. To "
           "share them afterwards took 5 % of the first training (Ainslie et al. 2023)."),
)  # fmt: skip
QUESTIONS = Question(
    "Does it work from left to right: writing, or reading a text that still arrives?",
    "Who does keeps something of every token for the next step. Who has the whole text from the start keeps "
    "nothing, and may look both ways.",
    Question(
        "Must it find any earlier token exactly, or are all texts below six times the width?",
        "A window has lost what left it, and a state mixes what it keeps: training longer repairs neither. To score "
        "every pair of tokens finds everything, and only in longer texts is it more than half of the work.",
        MUST_FIND,
        MAY_FORGET,
    ),
    READS,
)


def follow(answers: str, at: Question | Choice = QUESTIONS) -> list[tuple[Question, str] | Choice]:
    """The way through the questions for answers such as ``"yes no"``; its last element is the choice.

    Raises:
        ValueError: an answer that is neither ``yes`` nor ``no``, or too few or too many of them; the message
            has the question that is open.
    """
    way: list[tuple[Question, str] | Choice] = []
    for answer in answers.split():
        if isinstance(at, Choice):
            raise ValueError(f"no question is left at {answer!r}; the way ends at {at.name}")
        if answer not in ("yes", "no"):
            raise ValueError(f"answer yes or no; got {answer!r} to: {at.ask}")
        way.append((at, answer))
        at = at.yes if answer == "yes" else at.no
    if isinstance(at, Question):
        raise ValueError(f"one more answer is needed, to: {at.ask}")
    return [*way, at]


def nodes(at: Question | Choice = QUESTIONS) -> Iterator[Question | Choice]:
    """All questions and choices, each before those that it leads to, yes before no."""
    yield at
    if isinstance(at, Question):
        yield from nodes(at.yes)
        yield from nodes(at.no)
