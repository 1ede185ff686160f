"""Asks for tokens with one credential over four connections, over and over, until standard input ends.

usage: bearer_load.py PORT CREDENTIAL

Prints `running` after the first answers, and at the end a JSON object: how often each status came.
"""

import http.client
import json
import sys
import threading
from collections import Counter

ended = threading.Event()
started = threading.Barrier(5)
lock = threading.Lock()
statuses = Counter()


def ask(port, credential):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(sys.maxsize):
        connection.request("GET", "/token", headers={"Authorization": f"Bearer {credential}"})
        response = connection.getresponse()
        response.read()
        with lock:
            statuses[response.status] += 1
        if number == 0:
            started.wait()
        if ended.is_set():
            return


threads = [
    threading.Thread(target=ask, args=(int(sys.argv[1]), sys.argv[2]), daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
started.wait()
print("running", flush=True)
sys.stdin.read()
ended.set()
for thread in threads:
    thread.join()
print(json.dumps(statuses), flush=True)
