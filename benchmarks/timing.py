"""CPU time of functions that are to be compared."""

import time


def best_seconds(*functions, repeats: int = 15) -> list[float]:
    """The shortest CPU time of each function, taking turns, so that a busy machine favours none."""
    best = [float("inf")] * len(functions)
    for function in functions:
        function()  # warm up
    for _ in range(repeats):
        for k, function in enumerate(functions):
            started = time.thread_time()
            function()
            best[k] = min(best[k], time.thread_time() - started)
    return best
