"""Explainers: why is an answer wrong? Each asks one question about what came back.

They are tried in a fixed order, and the first sentence counts. An explainer says only what is true of
every answer that hears it, so that one explainer helps every exercise:

    stored      which parameter of a layer is missing or too many, and how wide is a projection?
    errors      what does the error mean, and in which line of the answer was it raised?
    shapes      are the right numbers there, in another shape, order or type?
    decoders    what does a step of decoding cache wrongly, and whom does it read?
    gradients   are the results right, and is a way back cut, or an input changed?
    steps       which step of the right answer is the first whose numbers are never computed?
    memory      are the results right, and is too much made on the way to them?
    relations   how is the result related to the right one: reversed, averaged, twice as large?
    lengths     which axis is too long or too short, and as long as what else is it?
    masks       which query reads which key, and should not?
    hidden      is what hides a key a number that some scores are below?
    layers      with which parameters is a layer wrong, and with which right?
    maps        with the identity as values attention returns its own map: what is wrong with it?
    probes      which simpler question is the first that is answered wrong?
    counts      by which factor or term is a number off?
    places      which calls, results and places are wrong, and which are right?

An exercise may ask questions of its own first (`Exercise.explain`).
"""

import logging
from collections.abc import Callable, Iterable

from attncourse.grading.explain.asked import Asked
from attncourse.grading.explain.counts import of_number
from attncourse.grading.explain.decoders import cached, decoded, mixed_samples
from attncourse.grading.explain.errors import meaning_of_errors
from attncourse.grading.explain.gradients import changed_input, cut_gradient, lost_gradient
from attncourse.grading.explain.hidden import finite_fill
from attncourse.grading.explain.layers import neutral, of_layer, unsteady
from attncourse.grading.explain.lengths import wrong_lengths
from attncourse.grading.explain.maps import of_map
from attncourse.grading.explain.masks import wrong_pair
from attncourse.grading.explain.memory import too_large
from attncourse.grading.explain.places import (
    only_call,
    only_loud,
    some_right,
    wrong_places,
    wrong_property,
    wrong_results,
)
from attncourse.grading.explain.relations import (
    limited,
    multiplied,
    nearly_right,
    not_a_number,
    related,
    rounded,
)
from attncourse.grading.explain.shapes import (
    of_another_type,
    one_of_several,
    packed,
    reordered,
    reshaped,
    uncalled,
)
from attncourse.grading.explain.steps import missing_step
from attncourse.grading.explain.stored import stored
from attncourse.grading.judges import GIVEN

Explainer = Callable[[Asked], str]
LOG = logging.getLogger(__name__)

ORDER: tuple[Explainer, ...] = (
    stored,
    meaning_of_errors,
    uncalled,
    one_of_several,
    packed,
    reordered,
    reshaped,
    cached,
    of_another_type,
    changed_input,
    lost_gradient,
    cut_gradient,
    too_large,
    unsteady,
    multiplied,
    related,
    wrong_lengths,
    limited,
    wrong_property,
    wrong_pair,
    rounded,
    nearly_right,
    not_a_number,
    finite_fill,
    only_loud,
    neutral,
    of_layer,
    decoded,
    of_map,
    of_number,
    some_right,
    mixed_samples,
    missing_step,
    wrong_results,
    only_call,
    wrong_places,
)


def explain(asked: Asked, first: Iterable[Explainer] = ()) -> str:
    """The first sentence that an explainer has to say, or ''.

    Args:
        asked: the answer, and what it showed.
        first: explainers of one exercise, which are asked before all others.
    """
    if GIVEN in asked.seen:
        return ""  # it was never called, and the finding says why
    for explainer in (*first, *ORDER):
        try:
            says = explainer(asked)
        except (Exception, SystemExit):  # of strange results, or of an answer that was asked again
            LOG.debug("%s failed", explainer.__name__, exc_info=True)
            continue
        if says:
            return says
    return ""
