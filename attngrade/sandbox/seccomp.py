"""System calls that no notebook needs, and that no wall around it stops: they fail.

A filter of the kernel, for good and for all children of the process. It knows two processors; on
others there is none, and the report says so.
"""

import ctypes
import os
import struct

LIBC = ctypes.CDLL(None)
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06  # instructions of the filter
NUMBER, PROCESSOR, FIRST_ARGUMENT = 0, 4, 16  # where they stand in what it looks at
ALLOW, DENY = 0x7FFF0000, 0x00050001  # the call fails with EPERM
OTHER_NUMBERS = 0x40000000  # the same calls once more, with 32-bit addresses

# For each processor what the kernel calls it, the call `socket`, and what fails. Keys belong to who has
# logged in, and outlive a submission. io_uring makes sockets that no filter sees.
MACHINES = {
    "x86_64": (
        0xC000003E,
        41,
        {"add_key": 248, "request_key": 249, "keyctl": 250, "io_uring_setup": 425,
         "ptrace": 101, "perf_event_open": 298, "bpf": 321, "userfaultfd": 323},
    ),
    "aarch64": (
        0xC00000B7,
        198,
        {"add_key": 217, "request_key": 218, "keyctl": 219, "io_uring_setup": 425,
         "ptrace": 117, "perf_event_open": 241, "bpf": 280, "userfaultfd": 282},
    ),
}  # fmt: skip
# Unix, IP and netlink live in a network namespace. Others, such as the sockets between a virtual machine
# and its host, do not.
FAMILIES = 1, 2, 10, 16


class Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def program(machine: str) -> bytes:
    """The filter for a processor: each test is followed by what is returned if it holds."""

    def step(code: int, k: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, k)

    def when(test: int, k: int, what: int) -> bytes:
        return step(test, k, 0, 1) + step(RETURN, what)

    processor, socket, denied = MACHINES[machine]
    code = step(LOAD, PROCESSOR) + step(EQUAL, processor, 1, 0) + step(RETURN, DENY)
    code += step(LOAD, NUMBER) + when(AT_LEAST, OTHER_NUMBERS, DENY)
    code += b"".join(when(EQUAL, number, DENY) for number in denied.values())
    code += step(EQUAL, socket, 1, 0) + step(RETURN, ALLOW) + step(LOAD, FIRST_ARGUMENT)
    return code + b"".join(when(EQUAL, f, ALLOW) for f in FAMILIES) + step(RETURN, DENY)


def deny() -> bool:
    """From now on these calls fail, if there is a filter for this processor and the kernel takes it.

    Before, the process must have given up gaining privileges.
    """
    if os.uname().machine not in MACHINES:
        return False
    code = program(os.uname().machine)
    filtered = Program(len(code) // 8, code)
    return not LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filtered), 0, 0)
