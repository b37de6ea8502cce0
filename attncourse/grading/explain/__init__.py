"""Explainers: why is an answer wrong? Each asks one question about what came back.

They are tried in a fixed order, and the first sentence counts. An explainer says only what is true
of every answer that hears it, so that one explainer helps every exercise:

    stored      which parameter of a layer is missing or too many, and how wide is a projection?
    errors      what does the error mean, and in which line of the answer was it raised?
    shapes      are the right numbers there, in another shape, order or type?
    kept        is a result that of an earlier call?
    beside      are the results right, and a way back is cut, an input changed, too much made?
    factors     is all a multiple of what it should be, by a number or the size of an axis?
    relations   how is the result related to the right one: reversed, averaged, its square?
    lengths     which axis is too long or too short, and as long as what else is it?
    masks       which query reads which key, and should not?
    layers      is a layer at random, and what is wrong with its maps?
    decoders    what does a step of decoding cache wrongly, and whom does it read?
    widths      do the weights depend on the width of the values?
    maps        with the identity as values attention returns its own map: what is wrong with it?
    counts      how does one get a wrong number: by which factor, term or rounding?
    which       which property have the wrong calls, and the right ones not? Large scores?
    steps       which step of the right answer is the first whose numbers are never computed?
    places      which calls, results and places are wrong, and which are right?

`Exercise.explain` asks questions of its own first, which many make of these:

    probes      which simpler question is the first that is answered wrong?
    formula     which formula gives these counts?
    kinds       which rule do the wrong places of a table break?
    mixtures    of what is a result the sum, and with which factors?
    distances   which token met which row of a table of distances?
    buckets     which distances get another bucket than they should?
    trainings   what does a wrong fact about a trained model mean?

`weights` and `heads` tell what is wrong with weights; `asked` is all that may be looked at.
"""

import logging
from collections.abc import Callable, Iterable

from attncourse.grading.explain import (
    beside, counts, decoders, errors, factors, kept, layers, lengths, maps, masks, places,
    relations, shapes, steps, stored, which, widths,
)  # fmt: skip
from attncourse.grading.explain.asked import Asked
from attncourse.grading.judges import GIVEN

Explainer = Callable[[Asked], str]
LOG = logging.getLogger(__name__)

OF_ERRORS: tuple[Explainer, ...] = (stored.stored, errors.meaning_of_errors)
BEFORE: tuple[Explainer, ...] = (
    kept.kept_between, beside.changed_input, masks.inverted, shapes.reordered,
)  # fmt: skip
ORDER: tuple[Explainer, ...] = (
    *OF_ERRORS,
    shapes.packed, shapes.reshaped,
    shapes.of_another_type,
    beside.lost_gradient, beside.cut_gradient, beside.too_large,
    layers.unsteady,
    factors.multiplied, relations.related,
    lengths.wrong_lengths,
    masks.wrong_pair,
    relations.rounded, relations.not_a_number,
    which.only_loud,
    layers.of_layer,
    decoders.decoded,
    widths.value_width,
    maps.of_map,
    counts.of_number,
    places.by_calls,
    places.some_right,
    steps.missing_step,
    places.wrong_results, places.only_call, places.wrong_places,
)  # fmt: skip


def explain(asked: Asked, first: Iterable[Explainer] = ()) -> str:
    """The first sentence that an explainer has to say, or ''.

    Args:
        asked: the answer, and what it showed.
        first: explainers of one exercise, which are asked before all others.
    """
    if GIVEN in asked.seen:
        return ""  # it was never called, and the finding says why
    for explainer in OF_ERRORS if asked.stops else (*BEFORE, *first, *ORDER):
        try:
            says = explainer(asked)
        except (Exception, SystemExit):  # of strange results, or of an answer that was asked again
            LOG.debug("%s failed", explainer.__name__, exc_info=True)
            continue
        if says:
            return says
    return ""
