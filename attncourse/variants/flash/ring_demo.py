"""`ring_attention` in several processes on this machine, compared with attention in one.

Run it with ``python -m attncourse.variants.flash.ring_demo``, or the same under ``torchrun``. With
``--split zigzag`` the causal work is even.
"""

import argparse
import os
import sys
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

from attncourse.variants.flash.ring import ring_attention
from attncourse.variants.flash.ring_split import SPLITS, cut

# Largest difference allowed in float32, of the output and of its gradients, for heads up to 64 wide.
BOUNDS = (1e-6, 1e-5)


def main(argv: list[str] | None = None) -> None:
    """Join the processes that torchrun started, or start some; exit code 1 if the results differ."""
    options = read(argv)
    if "RANK" in os.environ:
        worker(int(os.environ["RANK"]), "env://", options)
        return
    # fork is quicker than spawn, and safe in a process that has used neither threads nor a GPU.
    start = "fork" if sys.platform == "linux" else "spawn"
    with tempfile.TemporaryDirectory() as folder:
        store = (Path(folder) / "store").as_uri()
        try:  # as soon as one process fails, this ends the others
            mp.start_processes(worker, (store, options), options.processes, start_method=start)
        except mp.ProcessExitedException as failure:
            sys.exit(str(failure))


def read(argv: list[str] | None) -> argparse.Namespace:
    """The options, refused where they make no ring."""
    parser = argparse.ArgumentParser(prog="python -m attncourse.variants.flash.ring_demo")
    parser.add_argument("--processes", type=int, help="default: 2, or what torchrun started")
    parser.add_argument("--length", type=int, default=2048, help="of the whole sequence")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--split", choices=SPLITS, default=SPLITS[0], help="who holds what")
    options = parser.parse_args(argv)
    started = os.environ["WORLD_SIZE"] if "RANK" in os.environ else None
    if options.processes is None:
        options.processes = int(started or 2)
    if started and options.processes != int(started):
        parser.error(f"torchrun started {started} processes; leave out --processes")
    for name in ("processes", "length", "heads", "head_dim"):
        if getattr(options, name) < 1:
            parser.error(
                f"--{name.replace('_', '-')} must be 1 or more; got {getattr(options, name)}"
            )
    pieces = options.processes * (2 if options.split == "zigzag" else 1)
    if options.length % pieces:
        parser.error(
            f"--length must be a multiple of {pieces}, the number of pieces; got {options.length}; "
            f"try {-(-options.length // pieces) * pieces}"
        )
    return options


def worker(rank: int, store: str, options: argparse.Namespace) -> None:
    """One process of the ring: both comparisons; rank 0 prints."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", options.processes))
    on_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= here
    device = torch.device("cpu")
    if on_gpu:
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", rank)))
        torch.cuda.set_device(device)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // here))
    backend = "nccl" if on_gpu else "gloo"
    patience = timedelta(minutes=1)
    dist.init_process_group(backend, store, patience, options.processes, rank)
    say(
        f"{options.processes} processes, backend {backend}; {options.length} positions in {options.split} "
        f"chunks of {options.length // options.processes}; {options.heads} heads of width "
        f"{options.head_dim}; float32"
    )
    passed = [compare(is_causal, device, options) for is_causal in (False, True)]
    # Not in a finally: after an error the others may never answer, and the exit of this process ends them.
    dist.destroy_process_group()
    if not all(passed):
        sys.exit(1)


def compare(is_causal: bool, device: torch.device, options: argparse.Namespace) -> bool:
    """Print differences and counts of one forward and one backward pass; are the differences small?"""
    shape = (1, options.heads, options.length, options.head_dim)
    generator = torch.Generator().manual_seed(0)  # the same sequence in every process
    *inputs, mixture = (torch.randn(shape, generator=generator).to(device) for _ in range(4))
    whole = [x.clone().requires_grad_() for x in inputs]
    rank, size, split = dist.get_rank(), dist.get_world_size(), options.split
    chunks = [cut(x, rank, size, split).clone().requires_grad_() for x in inputs]
    query, key, value = whole
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    wanted = (expected, *torch.autograd.grad(expected, whole, mixture))

    counts: Counter = Counter()
    query, key, value = chunks
    output = ring_attention(query, key, value, is_causal, split=split, counts=counts)
    forward = Counter(counts)
    found = (output, *torch.autograd.grad(output, chunks, cut(mixture, rank, size, split)))

    pairs = zip(found, wanted, strict=True)
    differences = [(x - cut(y, rank, size, split)).abs().max().item() for x, y in pairs]
    everyone: list[tuple] = [()] * options.processes
    row = (differences, forward, counts - forward)
    dist.all_gather_object(everyone, row)
    worst = torch.tensor([row[0] for row in everyone]).amax(dim=0).tolist()
    # A score is a sum of head_dim products: wider heads round more.
    output, gradients = (bound * max(1.0, options.head_dim / 64) for bound in BOUNDS)
    report(is_causal, worst, (output, gradients), everyone)
    # A NaN is not small.
    return worst[0] <= output and all(x <= gradients for x in worst[1:])


def report(is_causal: bool, worst: list, allowed: tuple, everyone: list[tuple]) -> None:
    """What the differences are and what each process did."""
    output, query, key, value = worst
    say(f"\n{'causal' if is_causal else 'full'} attention")
    say(
        "  largest difference from F.scaled_dot_product_attention on the whole sequence in one process:"
    )
    say(f"    output {output:.1e}, allowed {allowed[0]:.0e}")
    gradients = f"query {query:.1e}, key {key:.1e}, value {value:.1e}"
    say(f"    gradients of {gradients}, allowed {allowed[1]:.0e}")
    say("  process   blocks read   pairs scored   bytes sent forward   bytes sent backward")
    for rank, (_, forward, backward) in enumerate(everyone):
        say(
            f"  {rank:7}   {forward['computed']:11}   {forward['pairs']:12,}"
            f"   {forward['sent']:18,}   {backward['sent']:19,}"
        )


def say(line: str) -> None:
    """Print, in one process only."""
    if dist.get_rank() == 0:
        print(line, flush=True)


if __name__ == "__main__":
    main()
