"""Stops one thread of a process by ptrace(2): `stop_thread.py PID NAME`.

Prints a line when the thread has stopped, and lets it go on when standard input ends.
"""

import ctypes
import os
import sys
from pathlib import Path

ATTACH, DETACH = 16, 17
WALL = 0x40000000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def main(process, name):
    threads = Path(f"/proc/{process}/task")
    thread = next(int(each.name) for each in threads.iterdir() if (each / "comm").read_text().strip() == name)
    if libc.ptrace(ATTACH, thread, None, None) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    os.waitpid(thread, WALL)
    print("stopped", flush=True)
    sys.stdin.read()
    libc.ptrace(DETACH, thread, None, None)


main(int(sys.argv[1]), sys.argv[2])
