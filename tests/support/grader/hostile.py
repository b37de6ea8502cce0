"""Where hostile notebooks are graded: a grader in a process of its own, traps around it, and what may not be seen."""

import hashlib
import json
import os
import pickle
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
from grader.attacks import NAMES, Attack, as_found, right
from nbformat.v4 import new_code_cell, new_notebook

from attngrade import File, Order, Result
from support.grader.sandbox import ENVIRONMENT, ROOT

# Of each cell and of each exercise: for attacks that end by the clock, and for all others.
BRIEF, PATIENT = 3.0, 30.0
MEMORY = 2048  # MiB, less than usual, so that it is reached soon
MOST_MEMORY = 3 * 10**8  # that an attack may cost the grader itself, in bytes
MARKED = "submissions/neighbour.ipynb", "submissions/secret", "results/scores.csv", "teacher/teacher.json"  # fmt: skip
SERVE = "from support.grader.hostile import serve; serve()"


class Yard:
    """Folders of a teacher with marks in them, and sockets that nobody may reach.

    Args:
        owner: the id of the user who grades.
    """

    def __init__(self, owner: int):
        self.folder = Path(tempfile.mkdtemp(prefix="yard-"))
        self.tag = f"t{secrets.token_hex(5)}"
        for name in MARKED:
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f'{{"x": "MARK-{path.stem}"}}')
        self.put = self.contents()
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, owner, owner)
        self.reached: list[str] = []
        self.sockets = [self._listen(socket.AF_INET, ("127.0.0.1", 0))]
        port = self.sockets[0].getsockname()[1]
        self.sockets += [
            self._listen(socket.AF_INET, ("127.0.0.1", port), socket.SOCK_DGRAM),
            self._listen(socket.AF_UNIX, str(self.folder / "socket")),
            self._listen(socket.AF_UNIX, f"\0{self.tag}"),
        ]
        words = {
            "TAG": self.tag, "NAP": 10**6 + secrets.randbelow(10**6), "PORT": port, "SECONDS": BRIEF,
            "PIDNS": os.readlink("/proc/self/ns/pid"), "HOME": Path.home(), "COURSE": ROOT,
        }  # fmt: skip
        for name in ("socket", "submissions", "results", "teacher"):
            words[name.upper()] = self.folder / name
        self.words = {name: str(x) for name, x in words.items()}

    def close(self) -> None:
        """Take the traps away."""
        for sock in self.sockets:
            sock.close()
        shutil.rmtree(self.folder)

    def _listen(self, family, address, kind=socket.SOCK_STREAM) -> socket.socket:
        sock = socket.socket(family, kind)
        sock.bind(address)
        if kind == socket.SOCK_STREAM:
            sock.listen()

        def wait():
            try:
                while True:
                    came = sock.accept() if kind == socket.SOCK_STREAM else sock.recvfrom(99)
                    self.reached.append(f"{family.name} {came}")
            except OSError:
                return

        threading.Thread(target=wait, daemon=True).start()
        return sock

    def fill(self, text: str) -> str:
        """The text with its words filled in."""
        return re.sub("@([A-Z]+)@", lambda found: self.words.get(found[1], found[0]), text)

    def traces(self) -> list[str]:
        """Files anywhere that carry the tag in their names, and processes that do so in theirs."""
        places = {Path.home(), Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), ROOT, Path.cwd()}
        found = processes(self.tag, f"sleep\0{self.words['NAP']}")
        for place in places:
            for folder, folders, names in os.walk(place):
                folders[:] = [x for x in folders if x not in (".git", "site-packages", "_build")]
                found += [f"{folder}/{x}" for x in (*folders, *names) if self.tag in x]
        return found

    def contents(self) -> dict[str, str]:
        """What the folders of the teacher hold, by path."""
        files = [p for name in MARKED for p in (self.folder / name).parent.iterdir()]
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files if p.is_file()}


def order_of(student: str, attacks: list[Attack], yard: Yard) -> Order:
    """What a student hands in: a notebook for each attack."""
    files = []
    for place, attack in enumerate(attacks):
        check = attack.check or f'check("{attack.exercise}", {NAMES[attack.exercise]})'
        cells = enumerate((*attack.cells, check))
        notebook = new_notebook(cells=[new_code_cell(x, id=f"cell-{k}") for k, x in cells])
        changed = attack.edit(notebook) if attack.edit else None
        data = changed if isinstance(changed, bytes) else json.dumps(notebook).encode()
        if b"@" in data:  # latin-1: bytes that are no text stay what they are
            data = yard.fill(data.decode("latin-1")).encode("latin-1")
        files.append(File(f"{student}/{place}.ipynb", hashlib.sha256(data).hexdigest(), data))
    return Order(student, tuple(files))


class Service:
    """A grader in a process of its own, as root or not, with cgroups or without. A context manager.

    Args:
        command: the start of its command, from `support.grader.sandbox.run_as`.
        yard: its surroundings.
    """

    def __init__(self, command: list[str], yard: Yard):
        self.yard, self.secret = yard, f"MARK-seed-{secrets.token_hex(8)}".encode()
        self.process = subprocess.Popen(
            [*command, sys.executable, "-c", SERVE],
            cwd=yard.folder,
            env=ENVIRONMENT | {"HOME": str(yard.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid, self.uid = pickle.load(self.process.stdout)
        yard.words["PARENT"] = str(self.pid)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        running = descendants(self.process.pid)
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()
        self.yard.close()
        assert ended(running), [psutil.Process(pid).cmdline() for pid in filter(_runs, running)]

    def grade(self, order: Order, endless: bool = False):
        """The result, the seconds, and the bytes that the grader's own memory has grown by at most."""
        how = {"seconds": BRIEF if endless else PATIENT, "memory": MEMORY}
        pickle.dump((order, how | {"secret": self.secret}), self.process.stdin)
        self.process.stdin.flush()
        return pickle.load(self.process.stdout)

    def honest(self) -> Result:
        """The result of an honest student with a right answer."""
        cells = (*as_found("causal_mask"), right("causal_mask"))
        honest = Attack("honest", "honest", "causal_mask", cells)
        return self.grade(order_of("anna", [honest], self.yard))[0]

    def limits(self) -> dict[str, str]:
        """What an attack might have changed of the grader, and of what its judges are forked from."""
        pids = sorted({self.pid, *descendants(self.pid)})
        found = {}
        for pid in pids:
            folder = Path(f"/proc/{pid}")
            found[f"limits {pid}"] = (folder / "limits").read_text()
            found[f"out of memory {pid}"] = (folder / "oom_score_adj").read_text()
            status = (folder / "status").read_text()
            found[f"processors {pid}"] = re.search("Cpus_allowed_list:.*", status)[0]
            priority = os.getpriority(os.PRIO_PROCESS, pid)
            found[f"priority {pid}"] = f"{os.sched_getscheduler(pid)} {priority}"
        return found

    def harm(self, attacks: list[Attack], student: str = "mallory") -> list[str]:
        """Grade the notebooks of one hostile student; what they have gained, spoilt or cost."""
        endless = any(attack.endless for attack in attacks)
        order = order_of(student, attacks, self.yard)
        result, took, memory = self.grade(order, endless)
        found = []
        for attack, graded in zip(attacks, result.files, strict=True):
            verdict = next((v for v in graded.verdicts if v.name == attack.exercise), None)
            points, told = sum(v.points for v in graded.verdicts), f"{verdict}, {graded.problems}"
            gained = {
                f"it earned {points} points": points > attack.earns and not attack.known,
                "it is not known any more": attack.known and not points,
                f"{attack.ends} was expected, got {told}": attack.ends
                and getattr(verdict, "status", "") not in (attack.ends, "passed"),
                f"it got hold of something: {graded}": "MARK-" in repr(graded),
            }
            found += [f"{attack.name}: {what}" for what, so in gained.items() if so]
        if self.yard.reached:
            found.append(f"it reached {self.yard.reached}")
            self.yard.reached.clear()
        if memory > MOST_MEMORY:
            found.append(f"it made the grader take {memory / 2**20:,.0f} MiB")
        if took > len(attacks) * (20 * (BRIEF if endless else PATIENT) + 60):
            found.append(f"it took {took:.0f} s")
        if not result.official:
            found.append(f"it ran without a sandbox: {result.protections}")
        return found


def serve() -> None:
    """The life of the process of a `Service`: orders come in, results go out."""
    from attngrade.grader import grade
    from attngrade.settings import Settings

    orders, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)  # what somebody prints is no result
    answer = os.getpid(), os.getuid()
    while True:
        pickle.dump(answer, results)
        results.flush()
        try:
            order, how = pickle.load(orders)
        except EOFError:
            return
        before, start = peak_memory(reset=True), time.monotonic()
        result = grade(order, Settings(**how))
        answer = result, time.monotonic() - start, peak_memory() - before


def processes(*words: str) -> list[str]:
    """Running processes with one of these words in their name or command line."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            said = process.name() + "\0".join(process.cmdline())
            if process.pid != os.getpid() and any(word in said for word in words):
                found.append(f"{process.pid} {said[:80]!r}")
    return found


def descendants(of: int = 0) -> set[int]:
    """A process and those below it; by default those below this one alone."""
    root = psutil.Process(of or None)
    return {x.pid for x in root.children(recursive=True)} | ({of} if of else set())


def ended(pids: set[int], seconds: float = 60.0) -> bool:
    """Whether these processes end in time."""
    until = time.monotonic() + seconds
    while (left := list(filter(_runs, pids))) and time.monotonic() < until:
        time.sleep(0.02)
    return not left


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def peak_memory(reset: bool = False) -> int:
    """The most memory that this process held since the last reset, in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x)
    return int(line.split()[1]) * 1024
