"""How the cost of a request grows with what there is of something. Draws a picture of each curve."""

from . import curves, load, proxies, tools, upstreams
from .catalog import ALBUM, UNCACHED
from .comparison import Comparison
from .known import addresses, keys, origins
from .peers import answering_alike
from .report import Row, Spread
from .servers import Answer, Ours

# A hundred thousand of something do not fit in a processor's caches, so each look-up costs some misses. Anything that
# looks at all of them, or at a part that grows, costs a multiple.
BOUND = 1.25


class Growth(Comparison):
    """The same request with little and with much of one thing."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.rounds = min(self.rounds, 3)

    @property
    def steps(self):
        return [
            self.loops, self.connections, self.responses, self.clients, self.limited_addresses, self.client_origins,
            self.bodies]

    def loops(self):
        """event loops"""
        self._tokens(
            "loops", sorted({1, 2, len(tools.CORES)}), lambda server, _: load.requests(server, self.seconds),
            lambda count: {"loops": count, "cores": tools.CORES[:count]})

    def connections(self):
        """connections"""
        self._tokens(
            "connections", [10, 1_000, 10_000],
            lambda server, count: load.requests_of_many(server, self.seconds, count),
            lambda count: {"connections": count + 100})

    def responses(self):
        """cached responses"""
        with upstreams.ready(self.directory, self.credentials, 1) as upstream:
            ours = Ours(self.binary, self.credentials, {
                "ACCESS_ANONYMOUS": "{ catalog: true }", "CATALOG_UPSTREAM": f"http://127.0.0.1:{upstream.port}",
                "CATALOG_CACHE_MAX_BYTES": "2GB"})
            subjects = ours, self._proxy(ours, upstream, proxies.CACHE)
            self._growing("cached responses", [1, 1_000, 100_000], lambda _: subjects, self._cached)

    def clients(self):
        """clients"""
        self._known("clients", [1, 100, 1_000], keys)

    def limited_addresses(self):
        """addresses with a rate"""
        self._known("rate-limited addresses", [1, 1_000, 100_000], addresses)

    def client_origins(self):
        """origins"""
        self._known("origins", [1, 1_000, 50_000], origins)

    def bodies(self):
        """sizes of bodies through the proxy"""
        sizes = {"1 kB": 1_000, "100 kB": 100_000, "10 MB": 10_000_000}
        measured = {}
        for _ in range(self.rounds):
            for name, size in sizes.items():
                with upstreams.of_size(self.directory, self.credentials, size) as upstream:
                    ours = Ours(self.binary, self.credentials, UNCACHED | {
                        "ACCESS_ANONYMOUS": "{ catalog: true }",
                        "CATALOG_UPSTREAM": f"http://127.0.0.1:{upstream.port}"})
                    for subject in (ours, self._proxy(ours, upstream, proxies.STREAM)):
                        with subject.start() as server:
                            sample = load.requests(
                                server, 2 * self.seconds, path=ALBUM, script="distinct-paths.lua", connections=8)
                        measured.setdefault(subject.name, {}).setdefault(name, []).append(sample.microseconds / size)
        for name in sizes:
            self._compare(
                f"body of {name} through the proxy: CPU for each byte",
                [value * 1000 for value in measured["ours"][name]],
                {"nginx": [value * 1000 for value in measured["nginx"][name]]}, unit=" ns")
        speeds = {name: [Spread.of(1 / value for value in by_size[size]) for size in sizes]
                  for name, by_size in measured.items()}
        mine = speeds["ours"]
        least = min((Spread.ratios(after.values, before.values) for before, after in zip(mine, mine[1:])),
                    key=lambda ratio: ratio.median)
        self._add("bodies", "MB for each second of CPU time", "least of a size to the one before", least, "≥ 1.0×",
                  least.median >= 1, list(sizes), speeds)

    # How

    def _cached(self, server, count):
        """Hits, after each response has been stored."""
        stored = 0
        while stored < count:
            # All begin with the first path.
            stored = load.requests(
                server, 2 + count // 10_000, path=ALBUM, script="distinct-paths.lua", arguments=(count,)).count
        return load.requests(server, self.seconds, path=ALBUM, script="distinct-paths.lua", arguments=(count,))

    def _proxy(self, ours, upstream, directives):
        with ours.start() as server:
            answer = [Answer(server.port, ALBUM) for _ in range(2)][-1]
        return proxies.nginx(
            self.directory, self.credentials, upstream.port, answer, upstreams.FIELDS, directives)

    def _tokens(self, name, counts, measure, options):
        subjects = answering_alike(self.directory, self.credentials, Ours(self.binary, self.credentials))
        self._growing(name, counts, lambda _: subjects, measure, options)

    def _known(self, name, counts, known):
        """A cached token for callers, each known or counted by a field of its own."""
        cast = {count: known(self, count) for count in counts}

        def measure(server, count):
            script = {"script": "distinct-fields.lua", "arguments": (cast[count].field, cast[count].file)}
            # At first each caller is new.
            load.requests(server, 2, **script)
            return load.requests(server, self.seconds, **script)

        self._growing(name, counts, lambda count: cast[count].subjects, measure)

    def _growing(self, name, counts, subjects, measure, options=lambda _: {}):
        measured = {}
        cast = {count: subjects(count) for count in counts}
        for number in range(self.rounds):
            for count in counts if number % 2 == 0 else reversed(counts):
                for subject in cast[count]:
                    with subject.start(**options(count)) as server:
                        value = measure(server, count).microseconds
                    measured.setdefault(subject.name, {}).setdefault(count, []).append(value)
        lines = {name: [Spread.of(by_count[count]) for count in counts] for name, by_count in measured.items()}
        first, *others = lines["ours"]
        ratio = max((Spread.ratios(other.values, first.values) for other in others), key=lambda ratio: ratio.median)
        self._add(name, "CPU time of a request in microseconds", "most, to that with the fewest", ratio,
                  f"≤ {BOUND}×", ratio.median <= BOUND, [f"{count:,}" for count in counts], lines)

    def _add(self, name, unit, what, ratio, aim, is_met, labels, lines):
        medians = {server: [spread.median for spread in spreads] for server, spreads in lines.items()}
        texts = {
            server: f"{' → '.join(f'{value:,.4g}' for value in values)} ({values[-1] / values[0]:,.2f}×)"
            for server, values in medians.items()}
        mine = texts.pop("ours")
        self.rows.append(Row(
            f"{name} ({', '.join(labels)}): {unit}, {what}", ratio.text("×"), aim, is_met, mine,
            "; ".join(f"{server} {text}" for server, text in texts.items())))
        path = tools.ROOT / f"docs/growth-{name.replace(' ', '-')}.svg"
        path.write_text(curves.draw(name.capitalize(), unit, labels, medians))
