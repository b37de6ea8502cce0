"""What may be read and what may be written."""

from grader.attacks import Attacks

ATTACKS = Attacks("files", fuse=True, before="""
import glob, os, shutil, sys, tempfile

PLACES = ("@SUBMISSIONS@", "@RESULTS@", "@HOME@", "@COURSE@", "@TEACHER@", os.getcwd(), "/tmp", "/var/tmp", "/dev/shm",
          "/root", "/home", "/work", "/mnt", "/srv", "/run", "/opt", "/etc", "/usr/local")

def tried(action, *args, **how):
    try:
        return action(*args, **how)
    except BaseException:
        return None

def walk(place, most=2000):
    for folder, folders, names in os.walk(place):
        for name in (*folders, *names):
            most -= 1
            if most < 0:
                return
            yield os.path.join(folder, name)
""")  # fmt: skip
ATTACKS.read(r"""
#: the environment, its own and that of others
texts = [str(dict(os.environ))]
for pid in ("self", 1, 2, os.getppid(), "@PARENT@"):
    for name in ("environ", "cmdline"):
        texts.append(str(tried(lambda: open(f"/proc/{pid}/{name}", "rb").read())))
if any(x in str(texts) for x in ("MARK-" + "environment", "COURSE" + "_SECRET")):
    raise SystemExit("MARK-" + str(texts)[:300])
#: other submissions, results, the secret, and files of the system that are nobody's business
for place in PLACES:
    for path in walk(place):
        if os.path.isfile(path) and path.endswith((".ipynb", ".csv", ".json", ".key", ".pem", ".jsonl", "secret")):
            if "MARK-" in (tried(lambda: open(path, errors="replace").read(10**5)) or "").replace("MARK-" + '"', ""):
                raise SystemExit("MARK-read " + path)
for path in ("/etc/shadow", "/root/.ssh", "/root/.bash_history", "/var/log", "/etc/sudoers", "/home", "/etc/passwd"):
    if tried(os.listdir, path) or tried(lambda: open(path).read(1)):
        raise SystemExit("MARK-read " + path)
#: of the environment of Python only what Python needs
for prefix in {sys.prefix, sys.base_prefix} - {"/usr"}:
    if more := set(os.listdir(prefix)) - {"lib", "lib64", "bin", "pyvenv.cfg"}:
        raise SystemExit(f"MARK-read {more}")
course = [x for p in sys.path for x in glob.glob(p + "/attn*/*") if "masks.py" in x or "spec" in x]
if course:
    raise SystemExit(f"MARK-course {course}")
#: other submissions through links of the kernel
for name in range(64):
    for tail in ("", "/..", "/../..", "/../../.."):
        if any(x.endswith(".ipynb") for x in tried(os.listdir, f"/proc/self/fd/{name}{tail}") or ()):
            raise SystemExit("MARK-folder")
for root in ("/proc/self/root", "/proc/1/root", "/proc/self/cwd/../..", "/proc/1/cwd", "/proc/@PARENT@/root"):
    if tried(os.listdir, root + "@SUBMISSIONS@"):
        raise SystemExit("MARK-root")
#: a file in every folder, and a gradebook where one is looked for
for place in (*PLACES, sys.prefix, *sys.path, os.path.dirname("@SUBMISSIONS@"), "@RESULTS@/.."):
    for folder in (place, *walk(place, 100)):
        tried(lambda: open(os.path.join(folder, "@TAG@-WAS-HERE"), "w").write("x"))
    for name in ("scores.csv", "journal.jsonl", "sitecustomize.py", "torch.py", "attncourse.pth", "conftest.py"):
        path = os.path.join(place, name)
        if not os.path.exists(path):
            tried(lambda: open(path, "w").write("student,total\n@TAG@,99\n# @TAG@-WAS-HERE"))
    for k, target in enumerate(("@SUBMISSIONS@", "@RESULTS@", "/etc", "/etc/shadow")):
        tried(os.symlink, target, f"{place}/@TAG@-{k}-WAS-HERE")
        tried(os.link, target, f"{place}/@TAG@-hard-{k}-WAS-HERE")
#: files of others are opened for writing
for place in PLACES:
    for path in walk(place):
        if os.path.isfile(path) and "@TAG@" not in path and (found := tried(os.open, path, os.O_WRONLY)) is not None:
            os.close(found)
            if not path.startswith(("/proc", "/dev", "/tmp")):
                raise SystemExit("MARK-writable " + path)
#: files that are hard to delete, and programs with the rights of their owner
for place in ("/tmp", "/dev/shm"):
    base = f"{place}/@TAG@-WAS-HERE"
    tried(os.mkdir, base)
    tried(lambda: open(base + "/a\nb\udcff", "w").write("x"))
    tried(os.mkfifo, base + "/pipe")
    deep = base
    for _ in range(400):
        deep += "/d"
        tried(os.mkdir, deep)
    tried(shutil.copy, "/bin/sh", base + "/sh")
    tried(os.chmod, base + "/sh", 0o6777)
    tried(os.setxattr, base + "/sh", "security.capability", bytes(20))
    tried(os.chmod, base, 0)
#: the working folder is taken away
tried(os.chroot, "/tmp")
tried(shutil.rmtree, "/tmp")
tried(shutil.rmtree, "/course")
tried(shutil.rmtree, tempfile.gettempdir())
""")
