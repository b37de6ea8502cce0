"""On the private descriptor: messages that no honest worker sends."""

from grader.attacks import Attacks

ATTACKS = Attacks("wire", ends="", before="""
import gc, json, os, socket, stat, struct, sys, threading, time
def send(raw):
    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as sock:
                    sock.sendall(raw)
        except OSError:
            pass
def blob(text, data=b""):
    return struct.pack("<Q", len(text)) + text + data
def frame(body, sizes=(), data=b""):
    return blob(json.dumps([body, list(sizes)]).encode(), data)
def result(tree, gradients=(), changed=()):
    each = ["reply", {"tuple": [tree, list(gradients), list(changed)]}]
    return ["reply", [each] * 8]
def tensor(*parts):
    return frame(result({"tensor": list(parts)}), [["w0", 8]], bytes(8))
def peer():
    return next(x for x in gc.get_objects() if type(x).__name__ == "Peer")
""")  # fmt: skip

for what in (
    'struct.pack("<Q", 2**63)',
    'blob(b"[" * 10**5 + b"]" * 10**5)',
    'blob(b"[" + b"[]," * 10**6 + b"[]]")',
    'frame(["raised", "SystemExit", "MARK" * 10**6, True])',
    'frame(["ask", "call", []])',
    "frame(result(None)) * 10_000",
    'frame(result(True), [["w0", 2**62]])',
    'frame(result(True), [["w0", 8], ["w0", 8]], bytes(16))',
    'tensor("w0", "uint8", 0, [2, 2], [-1, 1], False)',
    'tensor("w0", "float64", 0, [5, 7], [7, 1], False)',
    'tensor("w0", "__class__", 0, [1], [1], False)',
    'tensor("g0", "float32", 0, [1], [1], True)',
    'frame(result({"fraction": ["1e20000000", None]}))',
    'frame(result({"dict": {"x" * 10**5: 1}}))',
    'frame(result({"pickle": "cos\\nsystem\\n(S\'touch /tmp/@TAG@-WAS-HERE\'\\ntR."}))',
    'frame(result({"object": {"yours": -1}}))',
    'frame(result({"object": {"mine": 10**30, "kind": "module", "type": "x" * 10**6}}))',
    'frame(result({"opaque": ["bool", "True"]}))',
):
    ATTACKS.when_called(f"it sends {what}", f"send({what})")
ATTACKS.read(r"""
#: half a message, then nothing | called | endless
send(struct.pack("<Q", 10**6) + b"{")
time.sleep(10**6)
#: one byte at a time, for ever | called | endless
for byte in frame(result(True)) * 10**4:
    send(bytes([byte]))
    time.sleep(0.05)
#: the questions are read away | called | endless
here = peer().pipe.sock
threading.Thread(target=here.dup().recv, args=(10**6,), daemon=True).start()
#: nobody reads | exercise=scaled_dot_product_attention | endless
import signal
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGSTOP)).start()
time.sleep(0.5)
#: a thread that replies to later questions | right | earns=1
def late():
    for _ in range(200):
        send(frame(result(True)))
        time.sleep(0.001)
threading.Thread(target=late, daemon=True).start()
#: the questions come back as replies | apart
here = peer()
old = here._receive
def echo():
    body = old()
    here._send(["reply", body])
    return body
here._receive = echo
type(here).export = lambda self, x: {"object": {"yours": 0}}
#: the worker speaks without bounds | apart
for module in list(sys.modules.values()):
    for name in [x for x in vars(module) if x.startswith("MOST_")]:
        setattr(module, name, 10**9)
def causal_mask(n, m):
    return [torch.ones(n, m, dtype=torch.bool).tril()] * 10**5
""")
