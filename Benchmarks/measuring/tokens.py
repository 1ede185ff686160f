"""Tokens: requests, signatures; idle connections, rest and start."""

import resource
import time

from . import load, tools
from .comparison import Comparison
from .peers import answering_alike
from .process import free_port
from .report import Row, Spread
from .servers import Ours, connect, exchange


class Tokens(Comparison):
    """Beside servers that return the bytes of a token's answer."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ours = Ours(self.binary, self.credentials)
        self.parameters = {}
        self.subjects = answering_alike(self.directory, self.credentials, self.ours)
        self.pair = self.subjects[:2]
        self.nginx = self.subjects[1]

    @property
    def steps(self):
        return [
            self.cached, self.cached_with_log, self.cached_over_tls, self.fresh, self.fresh_over_tls,
            self.idle_connections, self.idle_memory, self.start_to_answer]

    # Requests

    def cached(self):
        """cached token"""
        _, self.nginx_plain, *_ = self._beside(
            "cached token, no access log", self.subjects, lambda server: load.requests(server, self.seconds))

    def cached_with_log(self):
        """cached token with an access log"""
        self._beside(
            "cached token, access log to /dev/null", self.subjects, lambda server: load.requests(server, self.seconds),
            logs=True)

    def cached_over_tls(self):
        """cached token over TLS"""
        for subject in self.subjects:
            with subject.start(tls=True) as server:
                self.parameters.setdefault(load.tls_parameters(server.port), []).append(subject.name)
        _, self.nginx_over_tls, *_ = self._beside(
            "cached token over TLS 1.3", self.subjects, lambda server: load.requests(server, self.seconds, tls=True),
            tls=True)

    def fresh(self):
        """fresh signature for every request"""
        samples, self.openssl = [], []
        for _ in range(self.rounds):
            samples.append(self._fresh())
            self.openssl.append(load.signatures(1))
        ratio = Spread.ratios([1e6 / sample.microseconds for sample in samples], self.openssl)
        self.rows.append(Row(
            "fresh signature per request, signatures per CPU second", ratio.text("×"),
            "≥ 0.75×", ratio.median >= 0.75,
            Spread.of(1e6 / sample.microseconds for sample in samples).text("/s", 0),
            f"OpenSSL {Spread.of(self.openssl).text('/s', 0)}"))
        self._compare_signing("fresh signature per request", samples, self.nginx_plain)
        self._cost("fresh signature, ours", samples)

    def fresh_over_tls(self):
        """fresh signature for every request, over TLS"""
        samples = [self._fresh(tls=True) for _ in range(self.rounds)]
        self._compare_signing("fresh signature over TLS 1.3", samples, self.nginx_over_tls)
        self._cost("fresh signature over TLS 1.3, ours", samples)

    # Memory and start

    def idle_connections(self):
        """memory of idle connections"""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200
        for name, tls, connections in (("", False, 10_000), (" over TLS 1.3", True, 2_000)):
            connections = min(connections, most)
            ours, theirs = self._alternate(
                self.pair, lambda server: load.idle(server, connections, tls), rounds=min(self.rounds, 3), tls=tls,
                connections=connections + 100)
            ratio = Spread.ratios(ours, [max(value, 1) for value in theirs])
            is_met = ratio.median <= 1 if tls else Spread.of(ours).median <= 1024
            self.rows.append(Row(
                f"idle keep-alive connection{name}: memory, {connections:,} of them", ratio.text("×"),
                "≤ 1.0×" if tls else "≤ 1 kB", is_met,
                Spread.of(value / 1024 for value in ours).text(" kB"),
                f"nginx {Spread.of(value / 1024 for value in theirs).text(' kB')}"))

    def idle_memory(self):
        """memory at rest"""
        ours, theirs = [], []
        for _ in range(min(self.rounds, 3)):
            ours.append(self._memory(self._ours_as_it_comes()))
            theirs.append(self._memory(self.nginx.start(cores=tools.CORES)))
        for name, aim in (("anonymous", 4), ("resident", 18)):
            halves = [Spread.of(getattr(memory, name) / 1e6 for memory in half) for half in (ours, theirs)]
            ratio = Spread.ratios(*(half.values for half in halves))
            self.rows.append(Row(
                f"at rest: {name} memory", ratio.text("×"), f"≤ {aim} MB", halves[0].median <= aim,
                halves[0].text(" MB", 1), f"nginx {halves[1].text(' MB', 1)}"))

    def start_to_answer(self):
        """start to first answer"""
        ours, theirs = [], []
        for _ in range(self.starts):
            ours.append(self._start(self._ours_as_it_comes()))
            theirs.append(self._start(self.nginx.start(cores=tools.CORES)))
        ratio = Spread.ratios(ours, theirs)
        self.rows.append(Row(
            "start to first answer", ratio.text("×"), "≤ 30 ms", Spread.of(ours).median <= 30,
            Spread.of(ours).text(" ms", 1), f"nginx {Spread.of(theirs).text(' ms', 1)}"))

    @property
    def tls(self):
        """What each handshake with default settings has agreed on."""
        return "".join(f"\nTLS of {', '.join(names)}: {agreed}." for agreed, names in self.parameters.items())

    # How

    def _compare_signing(self, work, samples, answers):
        """nginx cannot sign: its answer and OpenSSL's signature together are what there is to compare with."""
        theirs = [answer.microseconds + 1e6 / signatures for answer, signatures in zip(answers, self.openssl)]
        self._compare(f"{work}: CPU", [s.microseconds for s in samples], {"nginx's answer and a signature": theirs})

    def _fresh(self, tls=False):
        with self.ours.start(tls=tls) as server:
            return load.requests(server, self.seconds, tls=tls, script="fresh-signature.lua")

    def _ours_as_it_comes(self):
        """As somebody starts it who has set nothing: a loop for each core, the admin listener too."""
        return self.ours.start(cores=tools.CORES, settings={
            "SERVER_LOOPS": str(len(tools.CORES)), "ADMIN_ENABLED": "true", "ADMIN_PORT": str(free_port()),
            "LOG_LEVEL": "info"})

    @staticmethod
    def _memory(server):
        with server:
            with connect(server.port) as connection:
                exchange(connection)
            time.sleep(0.2)
            return server.memory

    @staticmethod
    def _start(server):
        """Milliseconds from the start of the process to its first whole answer."""
        try:
            with server.wait_until_it_accepts() as connection:
                exchange(connection)
            return (time.perf_counter() - server.started) * 1000
        finally:
            server.__exit__()
