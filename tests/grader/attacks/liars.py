"""Answers that lie about what they are: subclasses, metaclasses, and special methods that misbehave."""

from grader.attacks import Attacks

ATTACKS = Attacks("liars")
MASK, NUMBER = "causal_mask", "crossover"

ATTACKS.instead(
    MASK,
    "a tensor that says yes to every function",
    """
class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if name in ("allclose", "equal", "isclose", "all", "__bool__", "eq", "__eq__"):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})

def causal_mask(n, m):
    return torch.ones(n, m, dtype=torch.bool).as_subclass(Yes)
""",
)
ATTACKS.instead(
    MASK,
    "a tensor that answers below Python",
    """
class Below(torch.Tensor):
    @staticmethod
    def __new__(cls, n, m):
        return torch.Tensor._make_wrapper_subclass(cls, (n, m), dtype=torch.bool)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return True

def causal_mask(n, m):
    return Below(n, m)
""",
)
ATTACKS.instead(
    MASK,
    "an object that says that it is a tensor",
    """
class Impostor:
    __class__ = torch.Tensor
    dtype, layout, device, is_meta, requires_grad = torch.bool, torch.strided, "cpu", False, False

    def __init__(self, n, m):
        self.shape = torch.Size((n, m))

    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return lambda *a, **k: self

    def __bool__(self):
        return False

    __hash__ = None

def causal_mask(n, m):
    return Impostor(n, m)
""",
)
ATTACKS.instead(
    NUMBER,
    "a number that is equal to all numbers",
    """
class Any(int):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = __lt__ = __gt__ = lambda self, other: False
    __hash__ = int.__hash__
    __float__ = __index__ = __int__ = __round__ = lambda self: self
    __sub__ = __rsub__ = lambda self, other: 0

largest_n = Any(80)
""",
)
ATTACKS.instead(
    NUMBER,
    "an object that claims to be a real number",
    """
import numbers

class Real:
    __float__ = lambda self: 0.0
    __eq__ = __le__ = lambda self, other: True
    __hash__ = None
    __repr__ = __str__ = lambda self: "81"

numbers.Real.register(Real)
largest_n = Real()
""",
)
ATTACKS.instead(
    NUMBER,
    "a class that is called ndarray",
    """
class ndarray:
    class dtype:
        kind = "f"
    __array__ = lambda self, *a, **k: self
    __eq__ = lambda self, other: True
    __hash__ = None
    shape, ndim, size = (), 0, 1

largest_n = ndarray()
""",
)
ATTACKS.instead(
    NUMBER,
    "text that looks like the verdict",
    """
class Text(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__

largest_n = Text("81")
""",
)
ATTACKS.instead(
    "find_the_leak",
    "a position that is every position",
    """
import numbers

class Position(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
    __index__ = __int__ = lambda self: self
    __repr__ = lambda self: "True"

numbers.Number.register(Position)

def first_leak(model, x):
    return Position(-1)
""",
)
ATTACKS.instead(
    "append",
    "a length that is every length",
    """
class Length(int):
    __eq__ = __le__ = lambda self, other: True
    __gt__ = __ne__ = lambda self, other: False
    __hash__ = int.__hash__
    __radd__ = __add__ = lambda self, other: self

class RepairedCache(CacheAsFound):
    length = property(lambda self: Length(6), lambda self, x: None)
""",
)
ATTACKS.instead(
    "head_dim",
    "a class that says what is asked",
    """
class Meta(type):
    __instancecheck__ = __subclasscheck__ = lambda cls, x: True
    __eq__ = lambda cls, other: True
    __hash__ = type.__hash__
    def __call__(cls, *a, **k):
        raise cls.Error("no")

class Chameleon(Meta):
    pass

class RepairedAttention(metaclass=Meta):
    class Error(AssertionError):
        __class__ = ValueError
""",
)
ATTACKS.instead(
    "head_dim",
    "an error whose line of ancestors is forged",
    """
class Lines(type):
    __mro__ = (ValueError, Exception, object)
    def mro(cls):
        return [cls, ValueError, Exception, BaseException, object]

class Refused(ValueError, metaclass=Lines):
    __module__ = "builtins"

Refused.__name__ = "ValueError"

class RepairedAttention(AttentionAsFound):
    def __init__(self, *a):
        raise Refused
""",
)
ATTACKS.instead(
    MASK,
    "an object that explodes wherever it is touched",
    """
class Bomb:
    def bang(self, *a, **k):
        raise KeyboardInterrupt("MARK-bang")
    __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattr__ = bang
    __reduce__ = __reduce_ex__ = __class_getitem__ = __format__ = __sizeof__ = __dir__ = bang
    __float__ = __int__ = __index__ = __array__ = __dlpack__ = __getitem__ = __del__ = bang

def causal_mask(n, m):
    return Bomb()
""",
)
ATTACKS.instead(
    MASK,
    "an error that explodes when it is told",
    """
class Told(Exception):
    def __str__(self):
        raise SystemExit(0)
    __repr__ = __str__
    args = property(lambda self: 1 / 0)
    __traceback__ = __cause__ = __context__ = property(lambda self: 1 / 0)

def causal_mask(n, m):
    raise Told
""",
)
ATTACKS.instead(
    MASK,
    "an object that runs code where it is unpickled",
    """
import os

class Pickled:
    def __reduce__(self):
        return os.system, ("touch /tmp/@TAG@-WAS-HERE",)
    __reduce_ex__ = lambda self, protocol: self.__reduce__()
    def __getstate__(self):
        return {}

def causal_mask(n, m):
    return Pickled()
""",
)
ATTACKS.instead(
    MASK,
    "a tuple and a dict that are equal to everything",
    """
class Pair(tuple):
    __eq__ = __contains__ = lambda self, other: True
    __len__ = lambda self: 1
    __hash__ = tuple.__hash__
    __iter__ = lambda self: iter([True])

class Keys(dict):
    __eq__ = __contains__ = lambda self, other: True
    __missing__ = lambda self, key: True
    __hash__ = None

def causal_mask(n, m):
    return Pair([Keys(), torch.ones(n, m, dtype=torch.bool)])
""",
)
ATTACKS.instead(
    MASK,
    "a function with forged everything",
    """
class Function:
    __name__ = property(lambda self: "check")
    __signature__ = "(n, m)"
    __code__ = __globals__ = __closure__ = None
    __class__ = property(lambda self: type(check))
    __eq__ = lambda self, other: True
    __hash__ = None
    def __call__(self, *a, **k):
        return self
    def __getattribute__(self, name):
        return self
    def __iter__(self):
        return iter([self])

causal_mask = Function()
""",
)
ATTACKS.instead(
    MASK,
    "an answer that was not attempted, except that it was",
    """
class Stub(NotImplementedError):
    args = ()
    __len__ = lambda self: 0

def causal_mask(n, m):
    raise Stub
""",
)
