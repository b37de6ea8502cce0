"""The race of chapter 20: every attention in the same small language model, for the same processor time.

    python benchmarks/race.py            about nine minutes on two cores

Two processes with one thread each; what counts is the time of the thread. Three seeds, of the weights and of the data.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context

import torch

from attncourse.lab import race

SEEDS, SECONDS, RECALL_SECONDS = (0, 1, 2), 18.0, 5.0


def one(name: str, seed: int) -> dict[str, float]:
    torch.set_num_threads(1)
    return race.run(name, seed, SECONDS, RECALL_SECONDS)


def main() -> None:
    runs: dict[str, list] = {name: [] for name in race.CONTENDERS}
    todo = list(
        product(SEEDS, runs)
    )  # all once, then all again: a change of the machine's mood hits all
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(one, name, seed) for seed, name in todo]
        for (seed, name), future in zip(todo, waiting, strict=True):
            runs[name].append({key: round(x, 4) for key, x in future.result().items()})
            print(seed, name, runs[name][-1], flush=True)
    kept = {"seconds": SECONDS, "recall_seconds": RECALL_SECONDS, "runs": runs}
    race.FILE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
