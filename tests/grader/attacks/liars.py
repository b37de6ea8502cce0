"""Answers that lie about what they are: subclasses, metaclasses, and special methods that misbehave."""

from grader.attacks import Attacks

ATTACKS = Attacks("liars")
ATTACKS.read(r"""
#: a tensor that says yes to every function
class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("allclose", "equal", "isclose", "all", "__bool__", "eq", "__eq__"):
            return True
        return super().__torch_function__(func, types, args, kwargs or {})
def causal_mask(n, m):
    return torch.ones(n, m, dtype=torch.bool).as_subclass(Yes)
#: a tensor that answers below Python | ends=
class Below(torch.Tensor):
    @staticmethod
    def __new__(cls, n, m):
        return torch.Tensor._make_wrapper_subclass(cls, (n, m), dtype=torch.bool)
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return True
def causal_mask(n, m):
    return Below(n, m)
#: an object that says that it is a tensor, and is equal to all | ends=
class Impostor:
    __class__ = torch.Tensor
    dtype, layout, device, is_meta, requires_grad = torch.bool, torch.strided, "cpu", False, False
    shape = property(lambda self: torch.Size((5, 7)))
    __eq__ = lambda self, other: True
    __bool__ = lambda self: False
    __getattr__ = lambda self, name: lambda *a, **k: self
    __hash__ = None
def causal_mask(n, m):
    return Impostor()
#: an object that claims to be a real number | exercise=crossover
import numbers
class Real:
    __float__ = lambda self: 0.0
    __eq__ = __le__ = lambda self, other: True
    __hash__ = None
numbers.Real.register(Real)
largest_n = Real()
#: a text that is equal to all, and a list that changes while it is read | exercise=crossover
class Text(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__
class Numbers(list):
    __iter__ = lambda self: iter(range(10**4))
    __len__ = lambda self: 1
largest_n = Numbers([Text("81")])
#: NaN, infinity and truth | exercise=crossover
largest_n = [math.nan, math.inf, True]
#: a position that is every position | exercise=find_the_leak
class Position(int):
    __eq__ = lambda self, other: True
    __hash__ = int.__hash__
    __index__ = __int__ = lambda self: self
def first_leak(model, x):
    return Position(-1)
#: a length that is every length | exercise=append
class Length(int):
    __eq__ = __le__ = lambda self, other: True
    __gt__ = __ne__ = lambda self, other: False
    __hash__ = int.__hash__
    __radd__ = __add__ = lambda self, other: self
class RepairedCache(CacheAsFound):
    length = property(lambda self: Length(6), lambda self, x: None)
#: an error whose line of ancestors is forged | exercise=head_dim
class Lines(type):
    def mro(cls):
        return [cls, ValueError, Exception, BaseException, object]
class Refused(ValueError, metaclass=Lines):
    __module__ = "builtins"
Refused.__name__ = "ValueError"
class RepairedAttention(AttentionAsFound):
    def __init__(self, *a):
        raise Refused
#: an error that explodes wherever it is touched
class Bad(Exception):
    def bang(self, *a, **k):
        raise KeyboardInterrupt("MARK" + "-bang")
    __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __getattr__ = __del__ = bang
    __reduce__ = __reduce_ex__ = __format__ = __float__ = __int__ = __index__ = __array__ = __getitem__ = bang
def causal_mask(n, m):
    raise Bad
#: an object that runs code where it is unpickled
import os
class Pickled:
    __reduce__ = lambda self: (os.system, ("touch /tmp/@TAG@-WAS-HERE",))
    __reduce_ex__ = lambda self, protocol: self.__reduce__()
def causal_mask(n, m):
    return Pickled()
#: a function with forged everything | ends=
class Function:
    __class__ = property(lambda self: type(check))
    __eq__ = lambda self, other: True
    __hash__ = None
    __getattribute__ = __call__ = lambda self, *a, **k: self
    __iter__ = lambda self: iter([self])
causal_mask = Function()
""")
