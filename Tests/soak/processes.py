"""The processes of a run: servers, emulators of Apple Music, and the store of the replicas."""

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from ground import TEAM
from journal import Journal, eventually


class Process:
    """A child with its output in files."""

    running = []

    def __init__(self, name, command, directory, environment=None):
        self.name = name
        self.output, self.log = directory / f"{name}.out", directory / f"{name}.log"
        with open(self.output, "wb") as output, open(self.log, "wb") as log:
            self.child = subprocess.Popen(
                list(map(str, command)), env=environment or {}, stdin=subprocess.DEVNULL, stdout=output, stderr=log,
                cwd=directory, start_new_session=True)
        Process.running.append(self)

    @property
    def pid(self):
        return self.child.pid

    def line(self, beginning):
        """Waits for a line of the output with this beginning, and returns the rest of it."""
        def found():
            for line in self.output.read_text().splitlines(keepends=True):
                if line.startswith(beginning) and line.endswith("\n"):
                    return line[len(beginning):].strip()
            if self.child.poll() is not None:
                log = self.log.read_text()[-2000:]
                raise RuntimeError(f"{self.name} ended with status {self.child.returncode}: {log}")
            return None
        return eventually(f"{self.name} prints “{beginning}”", found)

    def signal(self, number):
        self.child.send_signal(number)

    def ended(self, limit=60):
        """Waits for the end, and returns the status."""
        status = self.child.wait(limit)
        Process.running.remove(self)
        return status

    @classmethod
    def end_all(cls):
        """Ends what still runs, stopped processes included."""
        for process in cls.running:
            process.child.kill()
        for process in cls.running:
            process.child.wait()
        cls.running.clear()


class Emulator(Process):
    """Apple Music, over HTTP/2 with TLS or over HTTP/1.1."""

    def __init__(self, name, binary, directory, keys, port, is_secure):
        self.certificate = directory / "apple" / f"{name}.pem"
        command = [binary, "sandbox", "--port", port, "--team-id", TEAM, "--latency", "5ms"]
        for key in keys:
            command += ["--key-file", directory / "apple" / key.file]
        if is_secure:
            command += ["--tls", "--certificate-file", self.certificate]
        super().__init__(name, command, directory)
        self.line("Listening on ")
        self.port, self.is_secure = port, is_secure
        self.url = f"https://localhost:{port}" if is_secure else f"http://127.0.0.1:{port}"

    @property
    def settings(self):
        return {"CATALOG_UPSTREAM": self.url} | ({"CATALOG_CA_FILE": str(self.certificate)} if self.is_secure else {})

    def request(self, method, target, content=None, fields=None):
        """Status and content of a response of the emulator itself."""
        if self.is_secure:
            context = ssl.create_default_context(cafile=str(self.certificate))
            connection = http.client.HTTPSConnection("localhost", self.port, timeout=30, context=context)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, target, content, fields or {})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def behave(self, **order):
        """Orders faults or limits; without any, the emulator is well again."""
        status, content = self.request("PUT", "/sandbox/faults", json.dumps({"faults": []} | order))
        if status != 200:
            raise RuntimeError(f"the emulator refuses {order}: {content.decode()}")

    def statuses(self):
        """How often it has responded with each status."""
        return json.loads(self.request("GET", "/sandbox/log")[1])["statuses"]


class Store(Process):
    """A Redis without a memory of its own, over which servers share rates, quota and responses."""

    def __init__(self, name, directory, port):
        super().__init__(name, ["redis-server", "--port", port, "--save", "", "--dir", directory], directory)
        self.settings = {"SHARED_URL": f"redis://127.0.0.1:{port}"}
        self.port = port


class Server(Process):
    """One instance of the server. Those with the secure emulator are replicas of each other."""

    def __init__(self, name, binary, ground, emulator, store):
        environment = emulator.settings | {"MUSICKIT_CONFIG": str(ground.current / "config.json5")}
        self.is_replica = emulator.is_secure
        if self.is_replica:
            environment |= store.settings
        super().__init__(name, [binary, "serve"], ground.directory, environment)
        self.journal = Journal(self.log)
        self.emulator = emulator
        self.line("Listening on ")
        self.admin_port = int(self.line("Admin on ").rpartition(":")[2])

    def admin(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=30)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def metrics(self):
        """The page of metrics."""
        return Metrics(self.admin("/metrics")[1])

    def reload(self):
        """Sends SIGHUP, and waits until the reload has succeeded."""
        mark = self.journal.mark()
        self.signal(signal.SIGHUP)
        self.journal.wait("Configuration reloaded", mark, cause="SIGHUP")

    # The figures that the kernel has of the process.

    @property
    def threads(self):
        """The names of the threads."""
        found = []
        for entry in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                found.append((entry / "comm").read_text().strip())
            except (FileNotFoundError, ProcessLookupError):
                continue
        return sorted(found)

    @property
    def descriptors(self):
        """What each open descriptor is, without numbers."""
        found = []
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                found.append(re.sub(r"\[?\d+\]?", "", os.readlink(entry)).rpartition("/")[2])
            except FileNotFoundError:
                continue
        return sorted(found)

    @property
    def memory(self):
        """Resident and proportional memory in bytes."""
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)}
        return sizes["Rss"], sizes["Pss"]


class Metrics:
    """A page of metrics, read by Prometheus's own parser."""

    def __init__(self, text):
        self.text = text
        self.samples = [
            sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def __getitem__(self, name):
        """The sum of all samples of a metric."""
        return sum(sample.value for sample in self.samples if sample.name == name)

    def by(self, name, *labels):
        """The samples of a metric that are not 0, by these labels."""
        return {
            tuple(sample.labels[label] for label in labels): sample.value
            for sample in self.samples if sample.name == name and sample.value}


def free_port():
    """A port outside of the range of ephemeral ports, so that no client takes it between two processes."""
    for port in range(20_000 + os.getpid() % 5000, 30_000):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            if port not in free_port.given:
                free_port.given.add(port)
                return port
    raise RuntimeError("no port is free")


free_port.given = set()
