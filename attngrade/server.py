"""What the server of the judges imports. Ctrl-C is for the grader alone, who then ends them: the server ignores it,
and so do the judges from their first instruction, because they are forked from it.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)

import attngrade.judge  # noqa: E402, F401
