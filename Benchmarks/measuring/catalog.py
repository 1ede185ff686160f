"""Catalog answers from the cache and through the proxy, connections to the upstream, callers who wait."""

import resource
import time

from . import load, upstreams
from .callers import Callers, connections_to
from .comparison import Comparison
from .report import Row, Spread
from .servers import Answer, Nginx, Ours, Site

ALBUM = "/v1/catalog/us/albums/1200868603"
SIZES = {"1 kB": 1, "12 kB": 12}


class Catalog(Comparison):
    """Beside nginx as a caching proxy, and as one that only hands on."""

    @property
    def steps(self):
        return [self.from_cache, self.through_proxy, self.upstream_connections, self.stalled_callers]

    # Requests

    def from_cache(self):
        """catalog answer from the cache"""
        for size, songs in SIZES.items():
            with upstreams.ready(self.directory, self.credentials, songs) as upstream:
                self._beside(
                    f"catalog answer of {size} from the cache", self._pair(upstream, is_cached=True),
                    lambda server: load.requests(server, self.seconds, path=ALBUM))

    def through_proxy(self):
        """catalog answer through the proxy"""
        for size, songs in SIZES.items():
            with upstreams.ready(self.directory, self.credentials, songs) as upstream:
                self._beside(
                    f"catalog answer of {size} through the proxy", self._pair(upstream, is_cached=False),
                    lambda server: load.requests(server, self.seconds, path=ALBUM, script="distinct-paths.lua"))

    def _pair(self, upstream, is_cached):
        """Ours and nginx before the same upstream, with the same fields in their answers."""
        ours = self._ours(f"http://127.0.0.1:{upstream.port}", {} if is_cached else {"CATALOG_CACHE_MAX_BYTES": "0"})
        with ours.start() as server:
            answers = [Answer(server.port, ALBUM) for _ in range(2)]
        directives = _CACHE if is_cached else ""
        return ours, self._proxy(upstream.port, fields=_fields(answers[-1]), directives=directives)

    # Callers

    def upstream_connections(self):
        """connections to the upstream"""
        callers = 1000
        with upstreams.Waiting(0.5) as waiting, upstreams.over_http2(
                self.directory, self.credentials, waiting.port) as upstream:
            ours = self._ours(f"https://localhost:{upstream.port}", {
                "CATALOG_CA_FILE": str(self.credentials.certificate)})
            nginx = self._proxy(waiting.port)
            counts = [
                self._connections(subject, port, callers)
                for subject, port in ((ours, upstream.port), (nginx, waiting.port))]
        self.rows.append(Row(
            f"{callers:,} callers at once: connections to an upstream with HTTP/2 (nginx: HTTP/1.1)",
            f"{counts[0] / counts[1]:.3f}×", "≤ 10", counts[0] <= 10, *map(str, counts)))

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
                "CATALOG_TIMEOUTS_FIRST_BYTE": "300s", "CATALOG_TIMEOUTS_WHOLE": "600s"})
            for name, path, directives in (
                    ("each for something else", _album, ""), ("all for the same", lambda _: ALBUM, _CACHE + _LOCK)):
                halves = self._alternate(
                    (ours, self._proxy(waiting.port, directives=directives)),
                    lambda server: self._stalled(server, count, path), rounds=min(self.rounds, 3),
                    connections=count + 100)
                ratio = Spread.ratios(*halves)
                self.rows.append(Row(
                    f"caller who waits, {name}: anonymous memory, {count:,} of them", ratio.text("×"), "≤ 1.0×",
                    ratio.median <= 1, *(Spread.of(value / 1024 for value in half).text(" kB") for half in halves)))

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

    def _proxy(self, port, fields="", directives=""):
        """nginx before an upstream, as ours is set up: connections kept, a credential added."""
        return Nginx(self.directory, self.credentials, Site(room=_ROOM, http=f"""
  sendfile on;
  tcp_nopush on;
  proxy_cache_path {self.directory}/answers-{port} levels=1:2 keys_zone=answers:8m max_size=64m use_temp_path=off;
  upstream apple {{
    server 127.0.0.1:{port};
    keepalive {load.CONNECTIONS};
    keepalive_requests 1000000000;
  }}""", server=f"""
{fields}
    location /v1/ {{
      proxy_pass http://apple;
      proxy_http_version 1.1;
      proxy_read_timeout 1h;
      proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer {"e" * 240}";
      proxy_set_header Accept application/json;
      proxy_set_header Accept-Encoding identity;
      proxy_set_header User-Agent musickit-token-server;
      proxy_set_header Via "1.1 musickit-token-server";
{directives}
    }}"""))


# Two connections for a caller, plus a reserve: nginx closes idle connections when only a sixteenth of all is left.
_ROOM = 3

_CACHE = """
      proxy_cache answers;
      proxy_cache_key $request_uri;
      proxy_cache_valid 200 1h;"""

# Requests for the same resource wait for the first response, as in our server.
_LOCK = """
      proxy_cache_lock on;
      proxy_cache_lock_age 1h;
      proxy_cache_lock_timeout 1h;"""


def _fields(answer):
    """What makes nginx's answer bear the fields of ours."""
    dropped = [name for name in upstreams.FIELDS if name.lower() not in answer.fields]
    hidden = "\n".join(f"    proxy_hide_header {name};" for name in dropped)
    return hidden + "\n" + answer.added_fields(present={name.lower() for name in upstreams.FIELDS})


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
