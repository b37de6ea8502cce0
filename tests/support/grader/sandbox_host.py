"""Holds a sandbox and runs what it is told in it: the tests start it as root and as an ordinary user.

Each line of its input is a JSON object: ``source`` of a cell that defines ``tell``, its ``args``, the ``seconds`` it
may take, ``more`` bytes of memory if it is limited, ``fresh`` for another sandbox. Each line of its output is what
came back, or ``{"lost": why}``.
"""

import contextlib
import json
import os
import subprocess
import sys
import time

from attngrade.sandbox.limits import MIB, Limits
from attngrade.sandbox.peer import Peer
from attngrade.sandbox.sandbox import Sandbox
from attngrade.sandbox.stand_ins import stand_in
from attngrade.sandbox.wire import Lost
from support.grader.sandbox import ENVIRONMENT, ROOT, walls_stand

LIMITS = Limits(memory=2048 * MIB, cpu=900, files=4 * MIB)


def tell(box: Sandbox, peer: Peer, order: dict):
    """Run the cell, and call what it has defined."""
    box.pipe.deadline = time.monotonic() + order.get("seconds", 60)
    peer.ask("run", order["source"], "cell 1")
    _, _, answer = peer.ask("begin", "tell", "tell")
    if order.get("more") is None:
        return answer(*order["args"])
    with box.limited(order["more"]) as grown:
        return [grown, answer(*order["args"])]


class Host:
    """A process that holds a sandbox, as somebody.

    Args:
        start: of its command, as whom it runs; see `run_as`.
        walls: with bubblewrap or without.
    """

    def __init__(self, start: list[str], walls: str):
        command = [*start, sys.executable, "-m", "support.grader.sandbox_host"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*command, walls], cwd=ROOT, env=ENVIRONMENT, **pipes)
        self.about: dict = {}
        self.walls = walls == "walls"
        self.tell("def tell(): return 7")
        self.ordinary = self.about["user"] != 0
        if self.walls:
            walls_stand(self.state("bubblewrap"))

    def tell(self, source: str, *args, **how):
        """What ``tell`` returned in the sandbox; in the second place why it did not."""
        self.send(source, *args, **how)
        self.about = json.loads(self.process.stdout.readline())
        return self.about.get("told"), self.about.get("lost") or self.about.get("raised")

    def send(self, source: str, *args, **how) -> None:
        """Have a cell run; its answer is read by nobody."""
        self.process.stdin.write(json.dumps({"source": source, "args": args} | how) + "\n")
        self.process.stdin.flush()

    def state(self, name: str) -> str:
        """Whether a protection is in force."""
        return next(state for what, state in self.about["protections"] if name in what)

    def close(self) -> None:
        """End it."""
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def main(bubblewrap: bool) -> None:
    """Obey until the input ends."""
    box = None
    with contextlib.ExitStack() as stack:
        for line in sys.stdin:
            order = json.loads(line)
            if box is None or box.process is None or order.get("fresh"):
                stack.close()
                box = stack.enter_context(Sandbox(LIMITS, bubblewrap))
                peer = Peer(box.pipe, "g", {}, stand_in, box.limited)
            about = {"protections": box.protections, "official": box.official}
            about |= {"pid": os.getpid(), "user": os.geteuid(), "worker": box.worker.pid}
            about |= {"cgroups": [str(x) for x in box.group.folders]}
            try:
                peer.begin()
                reply = about | {"told": tell(box, peer, order)}
            except Lost as lost:
                reply = about | {"lost": str(lost)}
                box.close()
            except Exception as error:
                reply = about | {"raised": f"{type(error).__name__}: {error}"}
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main(sys.argv[1] == "walls")
