"""Holds a sandbox and runs what it is told in it: the tests start it as root and as an ordinary user.

Each line of its input is a JSON object: ``source`` of a cell that defines ``tell``, its ``args``, the ``seconds`` it
may take, ``more`` bytes of memory if it is limited, ``fresh`` for another sandbox. Each line of its output is what
came back, or ``{"lost": why}``.
"""

import contextlib
import json
import os
import sys
import time

from attngrade.sandbox.limits import MIB, Limits
from attngrade.sandbox.peer import Peer
from attngrade.sandbox.sandbox import Sandbox
from attngrade.sandbox.wire import Lost

LIMITS = Limits(memory=2048 * MIB, files=4 * MIB)


def tell(box: Sandbox, peer: Peer, order: dict):
    """Run the cell, and call what it has defined."""
    box.pipe.deadline = time.monotonic() + order.get("seconds", 60)
    peer.ask("run", order["source"], "cell 1")
    _, _, answer = peer.ask("begin", "tell", "tell")
    if order.get("more") is None:
        return answer(*order["args"])
    with box.limited(order["more"]) as grown:
        return [grown, answer(*order["args"])]


def stand_in(peer: Peer, what: dict):
    """The function of the other side, which is all that these cells hand out."""
    from attngrade.sandbox.calls import StandIn

    return StandIn(peer, what["mine"])


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
            about = {"protections": box.protections, "official": box.official, "pid": os.getpid()}
            about |= {"filtered": box.filtered, "worker": box.worker.pid, "bwrap": box.process.pid}
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
