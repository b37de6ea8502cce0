"""Preloaded by the fork server of the judges, which ignores Ctrl-C; so do the judges, from their first instruction.

Ctrl-C is for the grader alone, which then ends the judges.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)

import attngrade.judge  # noqa: E402, F401
