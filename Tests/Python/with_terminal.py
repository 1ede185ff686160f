"""Runs a program whose standard error is a terminal, and copies what the terminal shows to standard error.

    with_terminal.py program [argument …]

SIGTERM goes to the program; the exit status is the program's.
"""

import os
import signal
import sys

# The thread that started this program may have blocked all signals.
signal.pthread_sigmask(signal.SIG_SETMASK, [])
terminal, standard_error = os.openpty()
program = os.fork()
if program == 0:
    os.dup2(standard_error, 2)
    os.execv(sys.argv[1], sys.argv[1:])
os.close(standard_error)
signal.signal(signal.SIGTERM, lambda number, frame: os.kill(program, number))
while True:
    try:
        shown = os.read(terminal, 4096)
    except OSError:  # EIO: the program has closed its side.
        break
    if not shown:
        break
    os.write(2, shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))
