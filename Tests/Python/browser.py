"""A browser for tests: headless Chromium, with pages on any origin, all of them on this machine.

usage: browser.py

Prints `ready`. Then it reads from standard input the URL of a page, a line's end, the body of an asynchronous function in
JavaScript, and a zero byte; opens the page in a profile of its own, runs the function there, and prints a line of JSON:
`value`, what it returned, or `error`. And so on. At the end of its input everything ends, the browser and its files
included.

Whatever host a URL names is on loopback. On the ports 80 and 443 there are empty pages, by a server of ours (so
https://app.example.com is one); on any other port is what listens there. Certificates are not judged: who may read what
is what this is for. A script has functions: `ask(url, options)` calls fetch() and says what the page sees of it; `click`,
`type` and `press` use mouse and keys as a person does; `until` waits for a condition; `tree` has the roles and names that a
screen reader gets; `browser(method, parameters)` calls any method of the DevTools protocol.
"""

import contextlib
import http.server
import json
import os
import select
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading

# A net only: what is waited for comes within moments, or never.
PATIENCE = 60

PRELUDE = """
const browser = (method, parameters = {}) => new Promise((resolve, reject) => {
  const waiting = window.__waiting ??= [];
  waiting.push({ resolve, reject });
  __browser(JSON.stringify({ number: waiting.length - 1, method, parameters }));
});
// `sentence` is what does not happen, or a function that says it in the end.
const until = async (condition, sentence = String(condition)) => {
  for (let turn = 0; turn < 600; turn += 1) {
    const value = await condition();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error("It does not happen: " + (typeof sentence === "function" ? sentence() : sentence));
};
const find = (target) => typeof target === "string" ? document.querySelector(target) : target;
// Where an element is, once it rests there.
const place = async (element) => {
  let last = "";
  return until(async () => {
    element.scrollIntoView({ block: "center", behavior: "instant" });
    const box = element.getBoundingClientRect();
    const isAtRest = last === JSON.stringify(box) && box.width > 0;
    last = JSON.stringify(box);
    return isAtRest && box;
  }, "the element rests");
};
const click = async (target) => {
  const element = await until(() => find(target), "there is " + target);
  const box = await place(element);
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  if (!element.contains(document.elementFromPoint(x, y))) throw new Error("Something covers " + target);
  for (const type of ["mousePressed", "mouseReleased"]) {
    await browser("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
  }
};
const type = async (target, text) => {
  await click(target);
  find(target).select?.();
  await browser("Input.insertText", { text });
};
const codes = { Enter: 13, Tab: 9, Home: 36, End: 35, ArrowLeft: 37, ArrowRight: 39, " ": 32 };
const press = async (key) => {
  const text = key === "Enter" ? "\\r" : undefined;
  for (const type of ["keyDown", "keyUp"]) {
    await browser("Input.dispatchKeyEvent", { type, key, windowsVirtualKeyCode: codes[key], text });
  }
};
const tree = async () => (await browser("Accessibility.getFullAXTree")).nodes.filter((node) => !node.ignored)
  .map((node) => ({ role: node.role?.value, name: node.name?.value, properties: Object.fromEntries((node.properties ?? []).map((p) => [p.name, p.value.value])) }));
const ask = async (url, options) => {
  try {
    const answer = await fetch(url, options);
    const fields = Object.fromEntries(answer.headers);
    return { type: answer.type, status: answer.status, fields, body: await answer.text() };
  } catch (error) {
    return { error: error.name };
  }
};
"""


# Runs a program with two descriptors as its 3 and 4. No shell does: some take one digit only.
EXECUTE = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 5) for number in sys.argv[1:3]]
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execvp(sys.argv[3], sys.argv[3:])
"""


# What stands in for Apple's script: no test reaches Apple.
MUSICKIT = b"""
globalThis.MusicKit = { configure: async ({ developerToken }) => ({
  authorize: async () => "user-of-" + JSON.parse(atob(developerToken.split(".")[1])).iss,
  unauthorize: async () => {},
}) };
document.dispatchEvent(new Event("musickitloaded"));
"""


class Page(http.server.BaseHTTPRequestHandler):
    """An empty page at every path, except where Apple has MusicKit JS."""

    def do_GET(self):
        is_script = self.path == "/musickit/v3/musickit.js"
        content = MUSICKIT if is_script else b"<!doctype html><title>A page</title>"
        self.send_response(200)
        self.send_header("Content-Type", f"text/{'javascript' if is_script else 'html'}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def serve_pages(context=None):
    """Starts a server of pages, over TLS if there is a context; returns its port."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    if context:
        # The handshake is left to the thread of the connection, lest one that never comes block all others.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def tls(folder):
    """A context with a certificate of its own."""
    key, certificate = f"{folder}/key.pem", f"{folder}/certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate],
        check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


class Browser:
    """Chromium, told what to do by the DevTools protocol over two pipes: JSON, a zero byte behind each message."""

    def __init__(self, program, folder):
        self.log = open(f"{folder}/log", "w+b")
        self.serial = 0
        self.unread = b""
        self.messages = []
        to_browser, self.output = os.pipe()
        self.input, from_browser = os.pipe()
        rules = [f"MAP *:80 127.0.0.1:{serve_pages()}", f"MAP *:443 127.0.0.1:{serve_pages(tls(folder))}",
                 "MAP * 127.0.0.1"]
        arguments = [
            program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}/profile",
            # Root has no sandbox, a container little shared memory, a proxy nothing to say here.
            "--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--ignore-certificate-errors",
            # A page that is asked for by http is that page, and not another origin's.
            "--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable",
            f"--host-resolver-rules={','.join(rules)}"]
        # The protocol wants the descriptors 3 and 4. As a process group of its own it goes whole.
        self.process = subprocess.Popen(
            [sys.executable, "-c", EXECUTE, str(to_browser), str(from_browser), *arguments],
            pass_fds=[to_browser, from_browser], start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log, env=os.environ | {"HOME": folder, "TMPDIR": folder})
        os.close(to_browser)
        os.close(from_browser)

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def receive(self):
        """The next message."""
        while b"\0" not in self.unread:
            if not select.select([self.input], [], [], PATIENCE)[0]:
                raise RuntimeError("Chromium says nothing.")
            part = os.read(self.input, 65536)
            if not part:
                self.log.seek(0)
                raise RuntimeError(f"Chromium has ended: {self.log.read().decode(errors='replace')[-2000:]}")
            self.unread += part
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def wait(self, wanted):
        """The next message that is wanted, among those that have come and those to come."""
        for index, message in enumerate(self.messages):
            if wanted(message):
                return self.messages.pop(index)
        while not wanted(message := self.receive()):
            self.messages.append(message)
        return message

    def evaluate(self, session, expression):
        """Runs a script to its end. Meanwhile it calls what the script asks of the browser."""
        wanted = self.post("Runtime.evaluate", session, expression=expression, awaitPromise=True, returnByValue=True)
        while True:
            message = self.wait(lambda message: message.get("id") == wanted
                                or message.get("method") == "Runtime.bindingCalled")
            if message.get("id") == wanted:
                return self.result("Runtime.evaluate", message)
            asked = json.loads(message["params"]["payload"])
            try:
                name, value = "resolve", self.call(asked["method"], session, **asked["parameters"])
            except RuntimeError as failure:
                name, value = "reject", str(failure)
            self.call("Runtime.evaluate", session,
                      expression=f"window.__waiting[{asked['number']}].{name}({json.dumps(value)}); 0")

    def call(self, method, session=None, **parameters):
        """Calls a method and returns its result."""
        serial = self.post(method, session, **parameters)
        return self.result(method, self.wait(lambda message: message.get("id") == serial))

    def post(self, method, session=None, **parameters):
        """Calls a method and returns the number of its answer."""
        self.serial += 1
        serial = self.serial
        message = {"id": serial, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.output, data):]
        return serial

    @staticmethod
    def result(method, answer):
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def run(self, page, script):
        """Opens a page, and runs a script in it."""
        self.messages.clear()
        context = self.call("Target.createBrowserContext")["browserContextId"]
        try:
            target = self.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            self.call("Page.enable", session)
            failure = self.call("Page.navigate", session, url=page).get("errorText")
            if failure:
                raise RuntimeError(f"{page} cannot be opened: {failure}")
            self.wait(lambda message: message.get("method") == "Page.loadEventFired"
                      and message.get("sessionId") == session)
            opened = self.call("Runtime.evaluate", session, expression="origin")["result"]["value"]
            if opened != "/".join(page.split("/", 3)[:3]):
                raise RuntimeError(f"The page of {page} is of {opened}.")
            self.call("Runtime.enable", session)
            self.call("Runtime.addBinding", session, name="__browser")
            answer = self.evaluate(session, f"(async () => {{{PRELUDE}{script}\n}})()")
        finally:
            self.call("Target.disposeBrowserContext", browserContextId=context)
        if "exceptionDetails" in answer:
            thrown = answer["exceptionDetails"].get("exception", {})
            raise RuntimeError(f"The script threw {thrown.get('description', thrown.get('value'))}")
        return answer["result"].get("value")


def requests(stream):
    """Pages and scripts, as they come."""
    unread = b""
    while part := stream.read1():
        *whole, unread = (unread + part).split(b"\0")
        for request in whole:
            yield request.decode().split("\n", 1)


def main():
    # A page takes the headless shell, the same engine without Chrome around it, a fifth of the processor time.
    programs = ["chromium-headless-shell", "chromium", "google-chrome"]
    program = next(filter(None, map(shutil.which, programs)), None)
    if not program:
        sys.exit("There is no Chromium. Debian's package is called chromium-headless-shell.")
    with tempfile.TemporaryDirectory(prefix="browser.", ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        try:
            browser.call("Browser.getVersion")
            print("ready", flush=True)
            for page, script in requests(sys.stdin.buffer):
                try:
                    answer = {"value": browser.run(page, script)}
                except RuntimeError as failure:
                    answer = {"error": str(failure)}
                print(json.dumps(answer), flush=True)
        finally:
            browser.close()


if __name__ == "__main__":
    main()
