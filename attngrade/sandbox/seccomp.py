"""A filter of system calls that no notebook needs and no other protection stops: they fail with EPERM."""

import errno

try:
    import pyseccomp as kernel
except (ImportError, RuntimeError):  # pyseccomp or libseccomp is not installed
    kernel = None

# Keys belong to the user who has logged in. io_uring makes calls that no filter sees. Limits are set from
# outside. Memory in anonymous files, or of System V, belongs to no process and is counted for none.
DENIED = """
add_key request_key keyctl
io_uring_setup io_uring_enter io_uring_register
ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
perf_event_open bpf userfaultfd
mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr
unshare setns open_by_handle_at
setrlimit
sched_setscheduler sched_setparam sched_setattr setpriority ioprio_set
memfd_create memfd_secret shmget msgget semget
"""
# Unix, IP and netlink sockets live in a network namespace. Others, such as those between a virtual machine and
# its host, do not.
FAMILIES = {1, 2, 10, 16}
CLONE_NEWUSER = 0x10000000


def deny() -> bool:
    """Make these calls fail in this process and its children; False where libseccomp is missing."""
    if kernel is None:
        return False
    no = kernel.ERRNO(errno.EPERM)
    calls = kernel.SyscallFilter(kernel.ALLOW)
    calls.set_attr(kernel.Attr.ACT_BADARCH, no)
    rules = [(no, name) for name in DENIED.split()]
    rules += [(no, "prlimit64", kernel.Arg(2, kernel.NE, 0))]  # reading a limit is allowed
    rules += [(no, "clone", kernel.Arg(0, kernel.MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER))]
    rules += [
        (kernel.ERRNO(errno.ENOSYS), "clone3")
    ]  # a filter cannot see its flags; callers fall back to clone
    others = set(range(max(FAMILIES))) - FAMILIES
    rules += [(no, "socket", kernel.Arg(0, kernel.EQ, family)) for family in others]
    rules += [(no, "socket", kernel.Arg(0, kernel.GT, max(FAMILIES)))]
    for action, name, *arguments in rules:
        number = kernel.resolve_syscall(kernel.Arch.NATIVE, name)
        if number != -1:  # known to this libseccomp
            calls.add_rule(action, number, *arguments)
    try:
        calls.load()
    except OSError:
        return False
    return True
