"""What a server holds while it has nothing to do, cycle after cycle, and whether that grows."""

from collections import Counter
from dataclasses import dataclass

from journal import eventually

# What memory at rest may grow from the first third of the samples to the last one. The allocator's pools grow long after
# the warm-up: in 38 cycles without a leak, a server went from 30.4 MB to 32.3 MB in 14 of them, and then stayed between
# 31.4 and 32.7. Most of that is in a run of five minutes, so such a run finds what leaks 40 kB in each reload, or 200
# bytes in each request; a longer run finds less.
ALLOWANCE = 3 << 19

# The server has a serial queue for its log, audit log, metrics, reloads, key sets and heap; the rest is Dispatch's.
POOL = 8

# The first cycles fill the cache, the stacks of threads and the allocator's pools.
WARM_UP = 3
# A run has at least so many cycles after them, because fewer do not show a trend.
FEWEST = 6


@dataclass(frozen=True)
class Sample:
    resident: int
    proportional: int
    # The names of the threads, without those of Dispatch's pool.
    threads: tuple
    # The number of threads in Dispatch's pool, which come with work and go some seconds after it.
    pool: int
    descriptors: tuple
    # What the server itself counts against its memory budget, and its connections to Apple Music, which are in it.
    budget: int
    upstream: int


def at_rest(server):
    """Waits until the server has nothing to do, and returns its metrics."""
    def found():
        metrics = server.metrics()
        busy = [name for name in (
            "musickit_connections_open", "musickit_upstream_requests_in_flight", "musickit_upstream_requests_waiting",
            "musickit_upstream_connection_requests", "musickit_connections_without_deadline") if metrics[name]]
        found.last = busy
        return None if busy else metrics
    try:
        return eventually(f"{server.name} has nothing to do", found)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; {found.last} are not 0") from error


def sample(server, like=None):
    """A sample of a server at rest. Descriptors get some time to become as in the sample `like`."""
    def found():
        metrics = server.metrics()
        descriptors = server.descriptors
        # Connections to Apple Music stay open for a while after their last request.
        upstream = int(metrics["musickit_upstream_connections_open"])
        for _ in range(min(upstream, descriptors.count("socket:"))):
            descriptors.remove("socket:")
        threads = [name for name in server.threads if not name.endswith("overcommit")]
        found.last = Sample(
            *server.memory, tuple(threads), len(server.threads) - len(threads), tuple(descriptors),
            int(metrics["musickit_memory_budget_used_bytes"]), upstream)
        return found.last if like is None or found.last.descriptors == like.descriptors else None
    try:
        return eventually(f"{server.name} has the descriptors of the first sample", found, limit=20)
    except TimeoutError:
        return found.last


def growth(samples):
    """The bytes of resident memory by which the last third exceeds the first one."""
    kept = samples[WARM_UP:]
    third = max(1, len(kept) // 3)
    return min(s.resident for s in kept[-third:]) - max(s.resident for s in kept[:third])


def findings(name, samples):
    """What is not flat."""
    kept, found = samples[WARM_UP:], []
    if growth(samples) > ALLOWANCE:
        sizes = ", ".join(f"{s.resident / 1e6:.1f}" for s in samples)
        found.append(f"{name}: memory grows by {growth(samples) / 1e6:.2f} MB; resident MB by cycle: {sizes}")
    if len({s.threads for s in kept}) > 1 or max(s.pool for s in samples) > POOL:
        found.append(f"{name}: the threads change: {[(len(s.threads), s.pool) for s in samples]} (own, of the pool)")
    if len({s.descriptors for s in kept}) > 1:
        found.append(
            f"{name}: the descriptors change: {[len(s.descriptors) for s in samples]}; "
            f"new since cycle {WARM_UP + 1}: {dict(Counter(kept[-1].descriptors) - Counter(kept[0].descriptors))}")
    if len({s.budget / s.upstream if s.upstream else s.budget for s in kept} - {0}) > 1:
        found.append(
            f"{name}: the memory that the server counts at rest is not that of its connections to Apple Music: "
            f"{[(s.budget, s.upstream) for s in samples]}")
    return found
