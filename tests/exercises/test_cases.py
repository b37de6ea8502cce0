"""The calls of every exercise: what follows from them by rule is there, and no edge of a right answer is left out."""

from pathlib import Path

import pytest
from edges import watched

from attncourse.grading import load, names
from attncourse.grading.exercises import chapter_of
from attncourse.grading.judges import Calls, cases_of
from attncourse.grading.observe import run

ROOT = Path(__file__).parents[2]
EXERCISES = "attncourse.grading.exercises"
WHOLE = ": never with a remainder"  # the statement says that one divides the other
NEVER = {  # what no call can meet
    "multi_head_attention": ["`len(w_o) // num_heads`" + WHOLE],
    "sinusoid": ["`width // 2`" + WHOLE],
    "t5_bucket": ["`buckets // 2`" + WHOLE, "`half // 2`" + WHOLE],
    "rotary_step": ["`d // 2`" + WHOLE],
    "param_count": ["`embed_dim // num_heads`" + WHOLE],
    "mean_pool": ["`num_heads // num_kv_heads`" + WHOLE],
    "tile_limits": ["`(block_m * head_dim + block_m * block_n) // threads`" + WHOLE],
    "gather_c2p": ["`pos_key.size(1) // 2`" + WHOLE],
    "repair_p2c": ["`pos_query.size(1) // 2`" + WHOLE],
    "log_bucket": ["`buckets // 2`" + WHOLE],
    # A table has 2 * reach + 1 rows, and a kernel an odd number of columns.
    "repair_positions": ["`table.size(1) // 2`: never whole"],
    "convolve_scores": ["`c_k // 2`: never whole"],
    "repair_leak": ["`kernel.size(2) // 2`: never whole"],
    # Maxima never fall, counts are not below 0, and masks have two axes or more.
    "repair_rescaling": ["`new > old`: never below"],
    "layers_needed": ["`mask.double() @ known.double() > 0`: never below"],
    "one_mask_per_sample": ["`mask.dim() > 2`: never below"],
    # Bounds of rounding, far from all that is compared with them.
    "find_the_leak": ["`(model(changed) - before)[:, i].abs().max() > 1e-06`: never on the edge"],
    "causal_decoder": ["`moved[i] > 1e-08`: never on the edge"],
    "toeplitz_test": ["`high - low < ROUNDING`: never on the edge"],
    # Here beta is given in every call.
    "delta_step": ["`if beta is not None`: never false"],
}


def judge_of(name: str):
    judge = load(name).judge
    return getattr(judge, "calls", judge) if not isinstance(judge, Calls) else judge


CALLED = [name for name in names() if isinstance(judge_of(name), Calls)]


def depends(item: pytest.Item) -> list[Path]:
    """All that decides which calls are made."""
    return [Path(__file__).parent / "edges.py", ROOT / "attncourse"]


@pytest.mark.parametrize("name", CALLED)
def test_each_edge_of_a_right_answer_is_met(name):
    chapter = chapter_of(name)
    file = ROOT / "attncourse" / "grading" / "exercises" / chapter / f"{name}.py"
    module, met = watched(file, f"{EXERCISES}.{chapter}")
    calls = [case for seed in range(3) for case in cases_of(judge_of(name), seed)]
    met.wanted.clear()
    for case in calls:
        for answer in (module.EXERCISE.right, vars(module).get("definition")):
            if answer:
                run(lambda answer=answer, case=case: answer(*case.args, **case.kwargs))
    assert sorted(met.missing()) == sorted(NEVER.get(name, []))
