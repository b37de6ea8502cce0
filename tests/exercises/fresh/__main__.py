"""``python -m fresh split_heads``: what mutants of the right answers hear, for whoever teaches an explainer."""

import argparse
import json
import os
import sys
from collections import Counter
from functools import partial
from pathlib import Path

os.environ.setdefault("TRITON_INTERPRET", "1")

import torch

from attncourse.grading import load, names
from fresh.apart import Lost, apart
from fresh.heard import leading
from fresh.judged import Judged, judged, slip
from fresh.sources import sources_of


def told(result: Judged, args: argparse.Namespace) -> None:
    """Print one exercise."""
    rest = f"{len(result.same)} are right, {len(result.endless)} have no end"
    told = f"{result.told:3} of {len(result.rows):3} are told ({result.share:4.0%})"
    print(f"{result.name:30} {told}; {rest}")
    for row, leads in zip(result.rows, leading(result.rows), strict=True):
        if args.all or args.silent and not leads:
            print(f"\n  {slip(row)}")
            for line, true in zip(row["shown"], row["true"], strict=True):
                mark = {True: "true", False: "FALSE", None: "?"}[true]
                print(f"    [{mark}{', leads' if line in leads else ''}] {line}")
    for row in result.same if args.right else []:
        print(f"  right: {slip(row)}")
    for line in result.false:
        print(f"  FALSE {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="EXERCISE", default=names())
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="of the mutants")
    parser.add_argument("--silent", action="store_true", help="what those read that are not told")
    parser.add_argument("--all", action="store_true", help="what each reads")
    parser.add_argument("--right", action="store_true", help="mutants that every seed judged right")
    parser.add_argument("--out", type=Path, help="the shares, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    wanted = [name for name in args.names if not load(name).left_out() and sources_of(load(name))]
    results, claims = {}, Counter()
    for name, result in apart(partial(judged, count=args.count, seed=args.seed), wanted, 900, 2):
        if isinstance(result, Lost):
            print(f"{name}: {result}", file=sys.stderr)
            continue
        results[name] = result
        told(result, args)
        claims.update(result.claims)
    said = max(1, sum(claims.values()))
    true = f"{claims[True] / said:.0%} of {said} sentences are checked and true"
    print(f"{true}, {claims[False]} are false.")
    worst = sorted(results.values(), key=lambda x: x.share)[:10]
    print("worst:", *(f"{x.name} {x.share:.0%}" for x in worst))
    if args.out:
        shares = {x: [results[x].told, len(results[x].rows)] for x in wanted if x in results}
        args.out.write_text(json.dumps(shares, indent=1) + "\n")


if __name__ == "__main__":
    main()
