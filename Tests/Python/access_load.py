"""Asks for tokens by two clients' keys, over and over, until standard input ends.

usage: access_load.py PORT

Of two policies, `one` knows key-one, gives tokens of 1000 s and allows https://one.example; `two` likewise with 2000 s
and https://two.example. Each answer must be one that a whole policy gives. Prints `running` after the first answers, and
at the end a JSON object: how many tokens each gave, and the answers that neither gives, the first ten.
"""

import http.client
import json
import sys
import threading

ended = threading.Event()
started = threading.Barrier(5)
lock = threading.Lock()
report = {"one": 0, "two": 0, "wrong": []}
lives = {"one": 1000, "two": 2000}


def judge(name, other, status, body, allowed):
    """What is wrong with an answer to a request with the key of `name` from the page of `other`; None if nothing is."""
    answer = json.loads(body)
    if status == 401:
        return None if answer["errors"][0]["code"] == "invalid_credentials" else "refused for another reason"
    if allowed not in (None, f"https://{other}.example"):
        return "another origin may read it"
    if name != other:
        # The key is known, so this policy is the key's: the page is foreign to it.
        right = status == 403 and answer["errors"][0]["code"] == "origin_not_allowed"
        return None if right else "the page is not its client's"
    if status != 200:
        return "refused"
    life = answer["expiresAt"] - answer["issuedAt"] - 60
    if life != lives[name] or answer["origin"] != [f"https://{name}.example"]:
        return "of another client"
    with lock:
        report[name] += 1
    return None


def ask(port):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    hasStarted = False
    while not ended.is_set():
        for name in ("one", "two"):
            for other in ("one", "two"):
                fields = {"X-API-Key": f"key-{name}", "Origin": f"https://{other}.example"}
                connection.request("GET", "/token", headers=fields)
                response = connection.getresponse()
                body = response.read()
                allowed = response.getheader("Access-Control-Allow-Origin")
                fault = judge(name, other, response.status, body, allowed)
                if fault and response.status != 429:
                    with lock:
                        report["wrong"].append([fault, name, other, response.status, body.decode()[:300]])
        if not hasStarted:
            hasStarted = True
            started.wait()


threads = [threading.Thread(target=ask, args=(int(sys.argv[1]),), daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
started.wait()
print("running", flush=True)
sys.stdin.read()
ended.set()
for thread in threads:
    thread.join()
report["wrong"] = report["wrong"][:10]
print(json.dumps(report), flush=True)
