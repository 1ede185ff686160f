# The client's settings: { id: "backend", apiKey: { sha256: "<from new-api-key>" } }
import json, logging, os, threading, time, urllib.error, urllib.request

held = {"refreshAfter": 0, "expiresAt": 0}
lock = threading.Lock()

def developer_token():
    """Returns a valid token. Raises an error only without a valid one. Concurrent callers share one request."""
    global held
    with lock:
        now = time.time()
        if now >= held["refreshAfter"]:
            try:
                held = request_token()
            except (OSError, RuntimeError) as error:
                if now > held["expiresAt"] - 60:
                    raise
                logging.warning("No new developer token: %s", error)
                held["refreshAfter"] = now + 60  # the token still works: try again in a minute
        return held["token"]

def request_token():
    key = os.environ["MUSICKIT_API_KEY"]
    request = urllib.request.Request("https://tokens.example.com/token", headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise RuntimeError(error.read().decode()) from error  # says what is wrong
