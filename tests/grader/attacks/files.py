"""What may be read and what may be written."""

from grader.attacks import WRONG, Attacks

ATTACKS = Attacks("files", needs="bubblewrap")
MASK = "causal_mask"
WALK = """
import glob, os, shutil, stat, sys, tempfile

PLACES = ("@SUBMISSIONS@", "@RESULTS@", "@HOME@", "@COURSE@", "@TEACHER@", os.getcwd(), "/tmp", "/var/tmp", "/dev/shm",
          "/root", "/home", "/work", "/mnt", "/srv", "/run", "/opt", "/etc", "/usr/local", sys.prefix)

def tried(action, *args, **how):
    try:
        return action(*args, **how)
    except BaseException:
        return None

def walk(place, most=3000):
    for folder, folders, names in os.walk(place):
        for name in (*folders, *names):
            most -= 1
            if most < 0:
                return
            yield os.path.join(folder, name)
"""


def files(name: str, body: str, **how) -> None:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    source = (
        f"{WALK}\ndef causal_mask(n, m):\n{lines}\n    return torch.ones(n, m, dtype=torch.bool)\n"
    )
    ATTACKS.instead(MASK, name, source, **how)


files(
    "the environment",
    """
texts = [str(dict(os.environ))]
for pid in ("self", 1, 2, os.getppid(), "@PARENT@"):
    for name in ("environ", "cmdline"):
        texts.append(str(tried(lambda: open(f"/proc/{pid}/{name}", "rb").read())))
found = [x for x in ("MARK-" + "environment", "COURSE" + "_SECRET") if x in str(texts)]
if found:
    raise RuntimeError("MARK-" + str(found))
""",
)
files(
    "other submissions",
    """
for place in ("@SUBMISSIONS@", "/tmp", os.getcwd(), "..", "../.."):
    for path in walk(place):
        if path.endswith(".ipynb") and "MARK-" + "neighbour" in (tried(lambda: open(path).read()) or ""):
            raise RuntimeError("MARK-read " + path)
""",
)
files(
    "results, gradebooks and the teacher's files",
    """
for place in PLACES:
    for path in walk(place):
        if path.endswith((".csv", ".json", ".db", ".txt", ".key", ".env", ".pem", ".jsonl")):
            text = tried(lambda: open(path, errors="replace").read(10**5)) or ""
            if any("MARK-" + word in text for word in ("results", "teacher", "journal")):
                raise RuntimeError("MARK-read " + path)
""",
)
files(
    "files of the system that are nobody's business",
    """
for path in ("/etc/shadow", "/etc/gshadow", "/root/.ssh", "/root/.bash_history", "/var/log/auth.log", "/etc/sudoers"):
    if tried(os.listdir, path) or tried(lambda: open(path).read(1)):
        raise RuntimeError("MARK-read " + path)
""",
)
files(
    "the course's answers on the disk",
    """
for place in {*sys.path, "@COURSE@", sys.prefix, "/usr/lib/python3", *PLACES}:
    for path in walk(place or "."):
        if "attncourse" in path and path.endswith(("masks.py", "spec.py", "causal_mask.py", "02_masks.ipynb")):
            text = tried(lambda: open(path).read()) or ""
            if "causal" in text:
                box = {"torch": torch, "math": math}
                tried(exec, text, box)
                return box.get("causal", box.get("lower_triangle", lambda n, m: None))(n, m)
""",
)
files(
    "a file in every folder",
    """
for place in PLACES:
    for folder in (place, *walk(place, 300)):
        if os.path.isdir(folder):
            tried(lambda: open(os.path.join(folder, "@TAG@-WAS-HERE"), "w").write("x"))
            tried(os.mkdir, os.path.join(folder, "@TAG@-WAS-HERE-2"))
""",
    fuse=True,
)
files(
    "files of others are opened for writing",
    """
for place in PLACES:
    for path in walk(place, 2000):
        if not os.path.isfile(path) or "@TAG@" in path:
            continue
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        if not path.startswith(("/proc", "/dev")):
            raise RuntimeError("MARK-writable " + path)
""",
    fuse=True,
)
files(
    "a gradebook is left where one is looked for",
    """
table = "student,total\\n@TAG@,99\\n"
for place in (*PLACES, os.path.dirname("@SUBMISSIONS@"), "@SUBMISSIONS@/..", "@RESULTS@/.."):
    for name in ("scores.csv", "scores.json", "gradebook.db", "journal.jsonl", "results.xml", "sitecustomize.py",
                 "conftest.py", "torch.py", "json.py", "usercustomize.py", "attncourse.pth"):
        path = os.path.join(place, name)
        if not os.path.exists(path):
            tried(lambda: open(path, "w").write(table + "# @TAG@-WAS-HERE"))
""",
    fuse=True,
)
files(
    "links to what a grader may read or delete",
    """
for place in ("/tmp", "/dev/shm", os.getcwd(), "/var/tmp"):
    for k, target in enumerate(("@SUBMISSIONS@", "@RESULTS@", "/etc", "/", "@HOME@", "/etc/shadow")):
        tried(os.symlink, target, f"{place}/@TAG@-{k}-WAS-HERE")
        tried(os.link, target, f"{place}/@TAG@-hard-{k}-WAS-HERE")
""",
    fuse=True,
)
files(
    "files that are hard to delete",
    """
for place in ("/tmp", "/dev/shm", os.getcwd()):
    base = f"{place}/@TAG@-WAS-HERE"
    tried(os.mkdir, base)
    tried(lambda: open(base + "/a\\nb\\udcff", "w").write("x"))
    tried(os.mkfifo, base + "/pipe")
    deep = base
    for _ in range(400):
        deep = deep + "/d"
        tried(os.mkdir, deep)
    for _ in range(9):
        tried(os.chdir, base)
        for _ in range(400):
            if tried(os.mkdir, "e" * 200) is None and not os.path.isdir("e" * 200):
                break
            tried(os.chdir, "e" * 200)
    tried(os.chmod, base, 0)
""",
    fuse=True,
    endless=True,
)
files(
    "programs with the rights of their owner",
    """
for place in ("/tmp", "/dev/shm", os.getcwd()):
    path = f"{place}/@TAG@-WAS-HERE"
    tried(shutil.copy, "/bin/sh", path)
    tried(os.chmod, path, 0o6777)
    tried(os.setxattr, path, "security.capability", bytes(20))
""",
    fuse=True,
)
files(
    "the working folder is taken away",
    """
tried(os.chdir, "/proc/self/fd")
tried(os.chroot, "/tmp")
tried(os.umask, 0)
tried(shutil.rmtree, "/tmp")
tried(shutil.rmtree, tempfile.gettempdir())
""",
    fuse=True,
)
files(
    "other submissions through links of the kernel",
    """
for name in range(64):
    for tail in ("", "/..", "/../..", "/../../.."):
        here = f"/proc/self/fd/{name}{tail}"
        if any(x.endswith(".ipynb") for x in tried(os.listdir, here) or ()):
            raise RuntimeError("MARK-folder")
for root in ("/proc/self/root", "/proc/1/root", "/proc/self/cwd/../..", "/proc/1/cwd"):
    if tried(os.listdir, root + "@SUBMISSIONS@"):
        raise RuntimeError("MARK-root")
""",
)
ATTACKS.beside(
    MASK,
    "modules that later submissions would import",
    """
import os, site, sys

for folder in (os.getcwd(), *sys.path, site.getusersitepackages()):
    try:
        os.makedirs(folder, exist_ok=True)
        for name in ("math", "numpy_", "attncourse_extra"):
            with open(f"{folder}/{name}-@TAG@-WAS-HERE.py", "x") as file:
                file.write("check = print")
    except OSError:
        pass
os.environ["PYTHONPATH"] = os.environ["PYTHONSTARTUP"] = "/tmp"
os.environ["LD_PRELOAD"] = "/tmp/@TAG@.so"
""",
    fuse=True,
)
ATTACKS.instead(
    MASK,
    "a cell that reads itself off the disk",
    """
import pathlib

texts = [p.read_text() for p in pathlib.Path("@SUBMISSIONS@").rglob("*.ipynb")]
if any("MARK-" + "neighbour" in text for text in texts):
    raise RuntimeError("MARK-read")
"""
    + WRONG[MASK],
)
