"""A cache that rolls, in steps that people get wrong."""

import torch


def around(first, n, window):
    """The slots of positions first to first + n - 1."""
    return (first + torch.arange(n)) % window


def last_tokens(new, start, window):
    """The tokens that stay, and the position of the first of them."""
    n = min(new.size(2), window)
    return new[:, :, new.size(2) - n :], start + new.size(2) - n


def newest_in(slots, length, window):
    """The last position that was written into each slot."""
    return length - 1 - (length - 1 - slots) % window


def repaired(
    memory=torch.zeros, slots=around, keep=last_tokens, write=lambda memory, at, new: memory.index_copy_(2, at, new),
    count=lambda length, n, window: length + n, label=newest_in, filled=min,
    returned=lambda memory, filled, positions, new: (memory[:, :, :filled], positions),
    end=lambda cache, window: None, renew=lambda memory: memory, start=lambda length, n, window: length,
):  # fmt: skip
    """The repaired cache; a mistake replaces a step."""

    class RepairedCache:
        """Keeps the last tokens, in the slots of one memory."""

        def __init__(self, *sizes):
            self.memory, self.length = memory(*sizes), 0

        def append(self, new):
            self.memory, window = renew(self.memory), self.memory.size(2)
            self.length = start(self.length, new.size(2), window)
            kept, first = keep(new, self.length, window)
            write(self.memory, slots(first, kept.size(2), window), kept)
            self.length = count(self.length, new.size(2), window)
            many = filled(self.length, window)
            positions = label(torch.arange(many), self.length, window)
            end(self, window)
            return returned(self.memory, many, positions, new)

    return RepairedCache


def two_pieces(memory, at, new, again=False):
    """What does not fit goes on at the front, where the chunk is not longer than the window."""
    slot, n = int(at[0]), len(at)
    room = min(n, memory.size(2) - slot)
    memory[:, :, slot : slot + room] = new[:, :, :room]
    memory[:, :, : n - room] = new[:, :, : n - room] if again else new[:, :, room:]


def beginning_again(memory, at, new):
    """The beginning of the chunk goes to the front instead of what did not fit."""
    two_pieces(memory, at, new, again=True)


def late(slots, length, window):
    """As found: one too late where the slot is the next to be written."""
    return length - (length - slots) % window


def returns(change):
    """``change`` makes what is returned of (tokens, positions)."""
    return {
        "returned": lambda memory, filled, positions, new: change(memory[:, :, :filled], positions)
    }


def in_order(tokens, positions):
    """Sorted by position, which copies."""
    order = positions.argsort()
    return tokens[:, :, order], positions[order]


def raising(new, start, window):
    """Only what is not longer than the window."""
    if new.size(2) > window:
        raise ValueError("the chunk is longer than the window")
    return new, start


def plain_slice(memory, at, new):
    """As found: from the first slot on, also beyond the end."""
    memory[:, :, int(at[0]) : int(at[0]) + len(at)] = new


def no_room(new, start, window):
    """An error, where the memory is full."""
    if start + new.size(2) > window:
        raise ValueError("the cache is full")
    return new, start


RIGHT = repaired()


class Joined(RIGHT):
    """torch.cat in every call."""

    kept = None

    def append(self, new):
        old = new[:, :, :0] if self.kept is None else self.kept
        self.kept = torch.cat([old, new], dim=2)[:, :, -self.memory.size(2) :]
        self.length += new.size(2)
        return self.kept, torch.arange(self.length - self.kept.size(2), self.length)
