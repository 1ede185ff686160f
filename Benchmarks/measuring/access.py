"""Access: what it costs to know who asks, beside the same server that lets everybody in."""

import hashlib

from . import load
from .comparison import Comparison
from .report import Row, Spread
from .servers import Ours

KEY = "mkts_" + "0" * 49
ORIGIN = "https://app.example.com"
DIGEST = hashlib.sha256(KEY.encode()).hexdigest()
# Other clients before it, as in any list. The last client must not be slower to find.
OTHERS = "".join(
    f'{{ id: "c{n}", apiKey: {{ sha256: "{hashlib.sha256(str(n).encode()).hexdigest()}" }} }},' for n in range(20))
AIM = 1.05
RATE = "rateLimit: { perSecond: 1000000, burst: 1000000 }"


class Caller:
    """A caller, and the server that knows it so."""

    def __init__(self, name, access, *fields):
        self.name, self.access, self.fields = name, access, fields

    def server(self, comparison):
        # An empty variable counts as unset.
        none = {"ACCESS_ANONYMOUS": "", "ACCESS_CLIENTS": ""}
        return Ours(comparison.binary, comparison.credentials, none | self.access)


def clients(last):
    return {"ACCESS_CLIENTS": f"[{OTHERS}{last}]"}


EVERYBODY = {"ACCESS_ANONYMOUS": "{ token: true }"}
PAGES = {"ACCESS_ANONYMOUS": f'{{ token: true, origins: ["{ORIGIN}"] }}'}
BEARER = f"Authorization: Bearer {KEY}"
FROM = f"Origin: {ORIGIN}"

WITH_RATE = Caller("anonymous with a rate", {"ACCESS_ANONYMOUS": f"{{ token: true, {RATE} }}"})

PAIRS = [
    (Caller("an API key", clients(f'{{ id: "app", apiKey: {{ sha256: "{DIGEST}" }} }}'), BEARER),
     Caller("anonymous", EVERYBODY)),
    (Caller("an API key that means nothing", EVERYBODY, BEARER), Caller("anonymous", EVERYBODY)),
    (Caller("an origin", clients(f'{{ id: "web", origins: ["{ORIGIN}"] }}'), FROM),
     Caller("anonymous from that origin", PAGES, FROM)),
    (Caller("an API key with a rate", clients(f'{{ id: "app", apiKey: {{ sha256: "{DIGEST}" }}, {RATE} }}'), BEARER),
     WITH_RATE),
    (WITH_RATE, Caller("anonymous", EVERYBODY)),
]


class Access(Comparison):
    """A cached token for a caller who is known, beside one for anybody."""

    @property
    def steps(self):
        return [self.quiet, self.recorded]

    def quiet(self):
        """callers who are known, without log or record"""
        self._pairs(logs=False)

    def recorded(self):
        """callers who are known, with log and record"""
        self._pairs(logs=True)

    def _pairs(self, logs):
        suffix = ", access log and record to /dev/null" if logs else ""
        for known, anybody in PAIRS:
            servers = {caller: caller.server(self) for caller in (known, anybody)}
            samples = {known: [], anybody: []}
            for number in range(self.rounds):
                for caller in (known, anybody) if number % 2 == 0 else (anybody, known):
                    with servers[caller].start(logs=logs) as server:
                        samples[caller].append(load.requests(server, self.seconds, fields=caller.fields))
            mine, theirs = ([sample.microseconds for sample in samples[caller]] for caller in (known, anybody))
            ratio = Spread.ratios(mine, theirs)
            self.rows.append(Row(
                f"cached token for {known.name} against {anybody.name}{suffix}: CPU", ratio.text("×"), f"≤ {AIM}×",
                ratio.median <= AIM, Spread.of(mine).text(" µs"), Spread.of(theirs).text(" µs")))
            self._cost(f"cached token for {known.name}{suffix}", samples[known])
