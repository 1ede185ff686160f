"""Catalog answers from the cache and through the proxy, connections to the upstream, callers who wait."""

import resource
import time

from . import load, proxies, upstreams
from .callers import Callers, connections_to
from .comparison import Comparison
from .report import Row, Spread
from .servers import Answer, Ours, connect, exchange

ALBUM = "/v1/catalog/us/albums/1200868603"
SIZES = {"1 kB": 1, "12 kB": 12}


class Catalog(Comparison):
    """Beside nginx as a caching proxy, and as one that only hands on."""

    @property
    def steps(self):
        return [
            self.from_cache, self.through_proxy, self.revalidated, self.through_proxy_over_http2,
            self.upstream_connections, self.stalled_callers]

    # Requests

    def from_cache(self):
        """catalog answer from the cache"""
        for size, songs in SIZES.items():
            with upstreams.ready(self.directory, self.credentials, songs) as upstream:
                ours = self._ours(f"http://127.0.0.1:{upstream.port}", {})
                self._beside(
                    f"catalog answer of {size} from the cache", self._pair(ours, upstream, proxies.CACHE),
                    lambda server: load.requests(server, self.seconds, path=ALBUM))

    def through_proxy(self):
        """catalog answer through the proxy"""
        for size, songs in SIZES.items():
            with upstreams.ready(self.directory, self.credentials, songs) as upstream:
                ours = self._ours(f"http://127.0.0.1:{upstream.port}", UNCACHED)
                self._beside(
                    f"catalog answer of {size} through the proxy", self._pair(ours, upstream, ""), self._distinct)

    def revalidated(self):
        """catalog answer revalidated by 304"""
        for size, songs in SIZES.items():
            with upstreams.ready(self.directory, self.credentials, songs, upstreams.STALE_FIELDS) as upstream:
                ours = self._ours(f"http://127.0.0.1:{upstream.port}", {
                    "CATALOG_CACHE_LIFETIME": "0s", "CATALOG_CACHE_STALE_WHILE_REVALIDATE": "0s"})
                self._beside(
                    f"catalog answer of {size} revalidated by 304",
                    self._pair(ours, upstream, proxies.CACHE + proxies.REVALIDATE, upstreams.STALE_FIELDS),
                    self._revalidated)

    def _revalidated(self, server):
        # The first time, each path is stored.
        self._distinct(server)
        return self._distinct(server)

    def through_proxy_over_http2(self):
        """catalog answer through the proxy, HTTP/2 over TLS upstream"""
        for size, songs in SIZES.items():
            with upstreams.ready(self.directory, self.credentials, songs, over_http2=True) as upstream:
                ours = self._ours(f"https://localhost:{upstream.port}", UNCACHED | {
                    "CATALOG_CA_FILE": str(self.credentials.certificate)})
                haproxy = proxies.haproxy(
                    self.directory, self.credentials, upstream.port, self._answer(ours), upstreams.FIELDS)
                self._beside(
                    f"catalog answer of {size} through the proxy, HTTP/2 over TLS upstream", (ours, haproxy),
                    self._distinct)

    def _distinct(self, server):
        return load.requests(server, self.seconds, path=ALBUM, script="distinct-paths.lua")

    def _pair(self, ours, upstream, directives, fields=upstreams.FIELDS):
        """Ours and nginx before the same upstream, with the same fields in their answers."""
        return ours, proxies.nginx(
            self.directory, self.credentials, upstream.port, self._answer(ours), fields, directives)

    @staticmethod
    def _answer(ours):
        """The second answer, which may be from the cache."""
        with ours.start() as server:
            return [Answer(server.port, ALBUM) for _ in range(2)][-1]

    # Callers

    def upstream_connections(self):
        """connections to the upstream"""
        callers = 1000
        with upstreams.Waiting(0.5) as waiting, upstreams.over_http2(
                self.directory, self.credentials, waiting.port) as upstream:
            ours = self._ours(f"https://localhost:{upstream.port}", {
                "CATALOG_CA_FILE": str(self.credentials.certificate)})
            nginx = proxies.nginx(self.directory, self.credentials, waiting.port)
            counts = [
                self._connections(subject, port, callers)
                for subject, port in ((ours, upstream.port), (nginx, waiting.port))]
        self.rows.append(Row(
            f"{callers:,} callers at once: connections to an upstream with HTTP/2 (nginx: HTTP/1.1)",
            f"{counts[0] / counts[1]:.3f}×", "≤ 10", counts[0] <= 10, str(counts[0]), f"nginx {counts[1]}"))

    def _connections(self, subject, port, count):
        """The most connections to a port while so many callers are served."""
        most = 0

        def look():
            nonlocal most
            most = max(most, connections_to(port))

        with subject.start(connections=count + 100) as server:
            with Callers(server.port, count, _album) as callers:
                answers = callers.answers(seconds=60, between=look)
        if answers.count("HTTP/1.1 200 OK") != count:
            raise RuntimeError(f"not every caller was served: {_summary(answers)} of {count}")
        return most

    def stalled_callers(self):
        """memory of callers who wait"""
        # nginx needs two connections for each caller.
        count = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 200)
        with upstreams.Waiting() as waiting:
            ours = self._ours(f"http://127.0.0.1:{waiting.port}", {
                "CATALOG_TIMEOUTS_FIRST_BYTE": "300s", "CATALOG_TIMEOUTS_WHOLE": "600s", "SERVER_LIMITS_BURST": "1h"})
            for name, path, directives in (
                    ("each for something else", _album, ""), ("all for the same", lambda _: ALBUM, proxies.CACHE + proxies.LOCK)):
                halves = self._alternate(
                    (ours, proxies.nginx(self.directory, self.credentials, waiting.port, directives=directives)),
                    lambda server: self._stalled(server, count, path), rounds=min(self.rounds, 3),
                    connections=count + 100)
                ratio = Spread.ratios(*halves)
                mine, theirs = (Spread.of(value / 1024 for value in half).text(" kB") for half in halves)
                self.rows.append(Row(
                    f"caller who waits, {name}: anonymous memory, {count:,} of them", ratio.text("×"), "≤ 1.0×",
                    ratio.median <= 1, mine, f"nginx {theirs}"))

    @staticmethod
    def _stalled(server, count, path):
        """Bytes of anonymous memory for each caller whose request is under way."""
        before = server.memory.anonymous
        with Callers(server.port, count, path) as callers:
            _wait_until_quiet(server)
            if answers := callers.answers(seconds=0.1):
                raise RuntimeError(f"callers who should wait were answered: {_summary(answers)}")
            return (server.memory.anonymous - before) / count

    # Servers

    def _ours(self, upstream, settings):
        return Ours(self.binary, self.credentials, {
            "ACCESS_ANONYMOUS": "{ token: true, catalog: true }", "CATALOG_UPSTREAM": upstream} | settings)


UNCACHED = {"CATALOG_CACHE_MAX_BYTES": "0"}


def _album(number):
    return f"/v1/catalog/us/albums/{1_200_860_000 + number}"


def _summary(answers):
    return ", ".join(f"{answers.count(line)} × {line}" for line in sorted(set(answers)))


def _wait_until_quiet(server):
    """Until the server has done what there is to do: no CPU time and no more memory, three times in a row."""
    before, quiet = None, 0
    while quiet < 3:
        time.sleep(0.3)
        now = (server.cpu, server.memory.anonymous)
        quiet = quiet + 1 if now == before else 0
        before = now
