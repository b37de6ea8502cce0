"""On the private descriptor: messages that no honest worker sends."""

from grader.attacks import RIGHT, Attacks

ATTACKS = Attacks("wire")
MASK, ATTEND = "causal_mask", "scaled_dot_product_attention"

TALK = """
import gc, json, os, socket, stat, struct, threading, time

def sockets():
    found = []
    for number in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                found.append(number)
        except OSError:
            pass
    return found

def send(raw):
    for number in sockets():
        try:
            with socket.socket(fileno=os.dup(number)) as sock:
                sock.sendall(raw)
        except OSError:
            pass

def blob(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw = struct.pack("<Q", len(text)) + text + data
    return struct.pack("<Q", len(raw)) + raw

def frame(body, header=None, data=b""):
    text = body if isinstance(body, str) else json.dumps(body)
    return blob({**(header or {}), "__metadata__": {"body": text}}, data)

def memory(n):
    return {"w0": {"dtype": "U8", "shape": [n], "data_offsets": [0, n]}}

def result(tree, changed=None, number=None):
    return ["reply", {"tuple": [tree, {"dict": changed or []}, number, {"dict": []}, []]}]

def peer():
    return next(x for x in gc.get_objects() if type(x).__name__ == "Peer")
"""


def says(name: str, statement: str, exercise: str = MASK, **how) -> None:
    """The answer says something of its own first; then the worker says what is wrong."""
    call, wrong = {
        MASK: ("causal_mask(n, m)", "torch.ones(n, m, dtype=torch.bool)"),
        ATTEND: ("scaled_dot_product_attention(query, key, value)", "query @ key.mT @ value, query @ key.mT"),
    }[exercise]  # fmt: skip
    lines = "\n".join(f"    {line}" for line in statement.strip().splitlines())
    ATTACKS.instead(exercise, name, f"{TALK}\ndef {call}:\n{lines}\n    return {wrong}\n", **how)


says("noise", 'send(b"MARK-noise" * 1000)')
says("the length of a message that never comes", 'send(struct.pack("<Q", 2**63))', endless=True)
says("a long message of which half comes", 'send(struct.pack("<Q", 10**6) + bytes(10**5))\nsend_late = time.sleep(10**6)', endless=True)  # fmt: skip
says("a message cut short, then the end", 'send(struct.pack("<Q", 10**6) + b"{")\nos._exit(0)')
says("one byte at a time, for ever", """
raw = frame(result(True)) * 10**4
for k in range(len(raw)):
    send(raw[k : k + 1])
    time.sleep(0.05)
""", endless=True)  # fmt: skip
says("the longest message that is allowed", 'send(struct.pack("<Q", 2**28) + bytes(2**28))')
says("a header that is longer than its message", 'send(struct.pack("<QQ", 8, 2**40))')
says("a message without a body", 'send(blob({"__metadata__": {}}))')
says("a body that is no text", 'send(blob({"__metadata__": {"body": [1]}}))')
says("a body that is no JSON", 'send(frame("{]"))')
says("lists in lists in lists", 'send(frame("[" * 100_000 + "]" * 100_000))')
says("lists in lists, as deep as JSON allows", 'send(frame("[" * 900 + "]" * 900))')
says("a tree of millions of empty lists", 'send(frame("[" + "[]," * 12_000_000 + "[]]"))')
says("a tree of millions of numbers", 'send(frame("[" + "1e3," * 6_000_000 + "1]"))')
says(
    "a million tensors",
    """
parts = ",".join('"w%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % k for k in range(10**6))
send(blob(("{" + parts + ',"__metadata__":{"body":"[]"}}').encode()))
""",
)
says(
    "a body in two versions",
    """
one, two = (json.dumps(json.dumps(result(x))) for x in (True, False))
send(blob(('{"__metadata__": {"body": %s, "body": %s}, "__metadata__": {"body": %s}}' % (one, two, one)).encode()))
""",
)
for what, header in {
    "overlap": '{"w0": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}, "w1": {"dtype": "U8", "shape": [8], "data_offsets": [4, 12]}}',
    "have a shape of NaN": '{"w0": {"dtype": "U8", "shape": [NaN], "data_offsets": [0, 8]}}',
    "have a negative shape": '{"w0": {"dtype": "U8", "shape": [-8], "data_offsets": [0, 8]}}',
    "overflow": '{"w0": {"dtype": "F64", "shape": [2305843009213693952, 8], "data_offsets": [0, 8]}}',
    "run backwards": '{"w0": {"dtype": "U8", "shape": [8], "data_offsets": [8, 0]}}',
    "are of floats": '{"w0": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}',
}.items():
    says(f"memory whose parts {what}", f"""
text = '{header[:-1]}, "__metadata__": ' + json.dumps({{"body": json.dumps(result(True))}}) + "}}"
send(blob(text.encode(), bytes(12)))
""")  # fmt: skip
for what, tree in {
    "negative strides": '["w0", "uint8", 0, [2, 2], [-1, 1], False]',
    "an offset outside": '["w0", "uint8", 2**39, [1], [1], False]',
    "more numbers than memory": '["w0", "float64", 0, [5, 7], [7, 1], False]',
    "an endless shape": '["w0", "bool", 0, [2**39, 2**39], [0, 0], False]',
    "an endless empty shape": '["w0", "bool", 0, [0, 2**39, 2**39], [2**39, 2**39, 1], False]',
    "a shape of text": '["w0", "bool", 0, "57", "11", False]',
    "a shape of truths": '["w0", "bool", False, [True], [True], False]',
    "a shape of fractions": '["w0", "bool", 0.5, [1.5], [1e400], False]',
    "a dtype of no name": '["w0", "__class__", 0, [1], [1], False]',
    "memory of the grader": '["g0", "float32", 0, [1], [1], True]',
    "no memory": '["w9", "float32", 0, [1], [1], True]',
    "too few parts": '["w0"]',
}.items():
    says(f"a tensor with {what}", f'send(frame(result({{"tensor": {tree}}}), memory(8), bytes(8)))')
for what, tree in {
    "of no kind": '{"pickle": "cos\\nsystem\\n(S\'touch /tmp/@TAG@-WAS-HERE\'\\ntR."}',
    "of many kinds": '{"tuple": [], "dict": []}',
    "of a kind that every object has": '{"_class__": [], }',
    "that is our own object, from behind": '{"object": {"yours": -1}}',
    "that is the grader's": '{"object": {"yours": 0}}',
    "that is an object without end": '{"object": {"mine": 10**30, "kind": "module", "type": "x" * 10**6}}',
    "that is an object of no kind": '{"object": {"mine": 0, "kind": "__class__", "type": "type\\0"}}',
    "that is a class called int": '{"object": {"mine": 0, "kind": "class", "type": "int", "calls": True}}',
    "that is a module that is none": '{"object": {"mine": 0, "kind": "module", "type": "Tensor", "calls": True}}',
    "that is a dict of dicts": '{"dict": [[{"dict": []}, 1], [[], 2]]}',
    "that is an opaque True": '{"opaque": ["bool", "True"]}',
    "that is an opaque tensor with a name": '{"opaque": ["Tensor\\0", "x" * 10**6]}',
    "that is an array of nothing": '{"array": {"tuple": []}}',
}.items():
    says(f"a value {what}", f"send(frame(result({tree})))")
says("two replies for one question", "send(frame(result([])))\nsend(frame(result({'tuple': []})))")
says("ten thousand replies in advance", "send(frame(result(None)) * 10_000)")
ATTACKS.beside(
    MASK,
    "replies before anything was asked",
    TALK
    + """
good = {"tensor": ["w0", "bool", 0, [1], [0], False]}
send(frame(["reply", None]) * 2)
send(frame(["reply", {"tuple": [True, False, {"object": {"mine": 0, "kind": "function", "type": "f", "calls": True}}]}]))
send(frame(result(good), memory(8), b"\\x01" * 8) * 50)
""",
)
ATTACKS.beside(
    MASK,
    "an answer to a question that was not asked of it",
    TALK
    + """
worker = next(x for x in gc.get_objects() if type(x).__name__ == "Worker")
worker.begin = worker.peer.serve["begin"] = lambda *a: (True, False, True)
worker.peer.serve["call"] = lambda *a: (True, {}, None)
worker.answers.clear()
""",
)
says("results in the wrong places", 'send(frame(["reply", 5]))')
says(
    "a result that was changed by nobody",
    'send(frame(result(True, [[0, True], [99, 1], [-1, 2], ["x", 3]])))',
)
says(
    "changes of things that are not there",
    """
tensor = {"tensor": ["w0", "uint8", 0, [8], [1], False]}
send(frame(result(True, [[k, tensor] for k in (0, 1, -1, 99)]), memory(8), bytes(8)))
""",
)
says("gradients of another number and shape", """
x = {"tensor": ["w0", "float32", 0, [2, 3, 5, 13], [0, 0, 0, 0], True]}
w = {"tensor": ["w0", "float32", 0, [2, 3, 5, 7], [0, 0, 0, 0], True]}
send(frame(result({"tuple": [x, w]}, number=7), memory(4), bytes(4)))
for wrong in (None, [], [True] * 3, [x], [x, x, x], [{"opaque": ["Tensor", "x"]}] * 3):
    send(frame(["reply", wrong], memory(4), bytes(4)))
""", exercise=ATTEND)  # fmt: skip
for kind in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration", "ExceptionGroup", "BaseException",
             "NotImplementedError", "Lost", "NotAttempted", "exit", "open", "type", "__import__", "\\ud800", "x\\0y", ""):  # fmt: skip
    bare = "True" if kind == "NotImplementedError" else "False"
    says(
        f"an error of the kind {kind or 'nothing'!r}",
        f'send(frame(["raised", "{kind}", "MARK-raised" and "no", {bare}]))',
    )
says(
    "an error with a message of a megabyte",
    'send(frame(["raised", "ValueError", "\\\\ud800<b>" * 10**5, False]))',
)
says(
    "errors of three words",
    'send(frame(["raised", "ValueError", []]))\nsend(frame(["raised", "x", "y", 1]))',
)
says(
    "questions to the grader",
    """
for what in ("call", "get", "run", "begin", "module", "vjp", "limit", "__class__", "", "serve"):
    for args in ([], [0], [0, "__globals__"], ["print('MARK-ran')", "cell"], [0, [], {"dict": []}, None, True, 0]):
        send(frame(["ask", what, args]))
""",
)
says(
    "a hundred thousand questions",
    "send(frame(['ask', 'call', [0, [], {'dict': []}, None, False, 0]]) * 100_000)",
    endless=True,
)
says(
    "descriptors are sent along",
    """
for number in sockets():
    with socket.socket(fileno=os.dup(number)) as sock:
        for _ in range(20):
            socket.send_fds(sock, [frame(result(True))], [0] * 100)
""",
)
says(
    "the way back is shut",
    """
for number in sockets():
    with socket.socket(fileno=os.dup(number)) as sock:
        sock.shutdown(socket.SHUT_RD)
""",
)
says(
    "the way there is shut",
    """
for number in sockets():
    with socket.socket(fileno=os.dup(number)) as sock:
        sock.shutdown(socket.SHUT_WR)
""",
)
says(
    "the questions are read away",
    """
for number in sockets():
    with socket.socket(fileno=os.dup(number)) as sock:
        threading.Thread(target=sock.dup().recv, args=(10**6,), daemon=True).start()
""",
    endless=True,
)
ATTACKS.beside(
    ATTEND,
    "nobody reads",
    TALK
    + """
import signal

def stop(*args):
    os.kill(os.getpid(), signal.SIGSTOP)
threading.Timer(0.05, stop).start()
time.sleep(0.5)
""",
    endless=True,
)
ATTACKS.beside(
    MASK,
    "the questions come back as replies",
    TALK
    + """
here = peer()
old = here._receive

def echo():
    body = old()
    here._send(["reply", body])
    return body
here._receive = echo
type(here)._send, type(here).export = type(here)._send, lambda self, x: {"object": {"yours": 0}}
""",
)
ATTACKS.beside(
    MASK,
    "the worker speaks through another function",
    TALK
    + """
right = {}
here = peer()
wire = __import__("sys").modules[type(here.pipe).__module__]
wire.save = lambda tensors, metadata: b"{}"
wire.load = lambda raw: {}
wire.MOST_NUMBERS = wire.MOST_NODES = wire.MOST_DEPTH = 10**9
type(here.pipe).most_bytes = 2**60
here.pipe.most_bytes = 2**60
""",
)
ATTACKS.instead(
    MASK,
    "a thread that replies to later questions",
    TALK
    + """
def late():
    time.sleep(0.02)
    for _ in range(200):
        send(frame(result(True)))
        time.sleep(0.001)

threading.Thread(target=late, daemon=True).start()
"""
    + RIGHT[MASK],
    earns=1,
)
