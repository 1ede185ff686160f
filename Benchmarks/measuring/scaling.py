"""What it costs to share a store, what the store does, what replicas save by it, and what callers feel of its troubles."""

import bisect
import itertools
import multiprocessing
import os
import random
import time
import urllib.error
import urllib.request

from . import load, tools, upstreams
from .catalog import ALBUM
from .comparison import Comparison
from .process import free_port
from .report import Row, Spread
from .servers import Ours, connect, exchange
from .store import TROUBLES, Store

# A rate that no load reaches, so that every request is granted and counted.
RATE = "{ token: true, catalog: true, rateLimit: { perSecond: 1000000, burst: 1000000 } }"


class Named(Ours):
    """Ours with another name in the table."""

    def __init__(self, name, binary, credentials, settings):
        super().__init__(binary, credentials, settings)
        self.name = name


class Scaling(Comparison):
    """Beside itself without a store."""

    @property
    def steps(self):
        return [self.cost, self.store_load, self.upstream_requests, self.troubles]

    def cost(self):
        """cached tokens and cache hits, with and without a store"""
        with Store() as store, upstreams.ready(self.directory, self.credentials, 1) as upstream:
            settings = {"ACCESS_ANONYMOUS": RATE, "CATALOG_UPSTREAM": f"http://127.0.0.1:{upstream.port}"}
            pair = (
                Named("with a store", self.binary, self.credentials, settings | {"SHARED_URL": store.url}),
                Named("alone", self.binary, self.credentials, settings))
            for work, path in (("cached token", load.TOKEN), ("catalog response from the cache", ALBUM)):
                self._beside(
                    f"{work} with a rate, over a store", pair,
                    lambda server: load.requests(server, self.seconds, path=path))

    def _compare(self, work, ours, theirs, aim=1.03, unit=" µs"):
        super()._compare(work, ours, theirs, aim, unit)

    def store_load(self):
        """what the store has to do for each replica"""
        for name, path, rate in (("at rest", None, "{ token: true }"), ("under a load of cached tokens", load.TOKEN, RATE)):
            with Store() as store:
                ours = Ours(self.binary, self.credentials, {"ACCESS_ANONYMOUS": rate, "SHARED_URL": store.url})
                with ours.start() as server:
                    time.sleep(1)
                    before, began, cpu = store.figures(), time.perf_counter(), store.process.cpu
                    if path:
                        load.requests(server, 5, path=path)
                    else:
                        time.sleep(5)
                    seconds = time.perf_counter() - began
                    after, used = store.figures(), store.process.cpu - cpu
            each = {
                key: (after[key] - before[key]) / seconds
                for key in ("total_commands_processed", "total_net_input_bytes", "total_net_output_bytes")}
            self.rows.append(Row(
                f"the store for each replica, {name}", f"{each['total_commands_processed']:.0f} commands/s", "", None,
                f"{each['total_net_input_bytes'] / 1e3:.1f} kB/s in, {each['total_net_output_bytes'] / 1e3:.1f} kB/s out",
                f"{used.total / seconds * 100:.2f} % of a core"))

    def upstream_requests(self):
        """upstream requests of 1, 3 and 9 replicas under the same load"""
        paths = list(zipf_paths(20_000 if self.seconds > 1 else 5_000))
        distinct = len(set(paths))
        counts = {}
        with upstreams.ready(self.directory, self.credentials, 1) as upstream:
            for shares in (True, False):
                for replicas in (1, 3, 9):
                    counts[shares, replicas] = self._attempts(paths, replicas, upstream.port, shares)
        for replicas in (3, 9):
            ratio = counts[True, replicas] / counts[True, 1]
            self.rows.append(Row(
                f"{len(paths):,} requests for {distinct:,} albums: requests to Apple of {replicas} replicas ÷ of one",
                f"{ratio:.2f}×", "0.9–1.1×", 0.9 <= ratio <= 1.1, f"{counts[True, replicas]:,}",
                f"one replica {counts[True, 1]:,}; without a store {counts[False, replicas]:,}"))

    def _attempts(self, paths, replicas, upstream, shares):
        with Store() as store:
            settings = {
                "ACCESS_ANONYMOUS": "{ catalog: true }", "CATALOG_UPSTREAM": f"http://127.0.0.1:{upstream}",
                "SERVER_LIMITS_BURST": "1h"} | ({"SHARED_URL": store.url} if shares else {})
            admins = [free_port() for _ in range(replicas)]
            servers = [
                Ours(self.binary, self.credentials, settings).start(
                    cores=tools.CORES, settings={"ADMIN_ENABLED": "true", "ADMIN_PORT": str(port)})
                for port in admins]
            try:
                for server in servers:
                    server.wait_until_it_accepts().close()
                time.sleep(1.2)
                # Request after request goes to another replica.
                work = [(server.port, paths[index::replicas]) for index, server in enumerate(servers)]
                with multiprocessing.Pool(replicas) as pool:
                    pool.starmap(request_all, work)
                return sum(attempts(port) for port in admins)
            finally:
                for server in servers:
                    server.__exit__()

    def troubles(self):
        """what callers feel while the store is in trouble"""
        go_first()
        admin = free_port()
        with Store() as store, upstreams.ready(self.directory, self.credentials, 1) as upstream:
            settings = {
                "ACCESS_ANONYMOUS": RATE, "CATALOG_UPSTREAM": f"http://127.0.0.1:{upstream.port}", "SHARED_URL": store.url,
                "ADMIN_ENABLED": "true", "ADMIN_PORT": str(admin)}
            with Ours(self.binary, self.credentials, settings).start() as server:
                for trouble in TROUBLES:
                    for work, path in (("cached token", load.TOKEN), ("catalog response from the cache", ALBUM)):
                        rounds = [self._in_trouble(server, admin, store, trouble, path) for _ in range(self.rounds)]
                        before, during = (Spread.of(times) for times in zip(*rounds))
                        most = max(1.1 * before.median, before.median + 1)
                        self.rows.append(Row(
                            f"{work}, the store is {trouble.name}: p99", f"{during.median - before.median:+.2f} ms",
                            "≤ 10 % or 1 ms more", during.median <= most, during.text(" ms"), f"before {before.text(' ms')}"))

    def _in_trouble(self, server, admin, store, trouble, path):
        """The 99th percentiles, in milliseconds, of a load before a trouble and of one in which it begins and ends."""
        seconds = self.seconds + 1

        def begin_and_end():
            time.sleep(0.2 * seconds)
            trouble.begin(store)
            try:
                time.sleep(0.4 * seconds)
                if is_usable(admin) == trouble.is_noticed:
                    raise RuntimeError(f"the replica has another opinion of a store that is {trouble.name}")
            finally:
                trouble.end(store)

        wait_until_usable(admin)
        before = load.slowest(server, seconds, path)
        during = load.slowest(server, seconds, path, begin_and_end)
        wait_until_usable(admin)
        return before, during


def go_first():
    """Lets server, store and load go before whatever else this machine does, which makes percentiles of milliseconds."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except PermissionError:
        pass


def request_all(port, paths):
    with connect(port) as connection:
        for path in paths:
            answer = exchange(connection, path)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"{path}: {answer[:200]}")


def attempts(admin):
    """The requests that a replica has sent to Apple."""
    return int(metric(admin, "musickit_upstream_attempts_total"))


def metric(admin, name):
    """The value of a metric without labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as response:
        lines = response.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def wait_until_usable(admin):
    """Waits until a replica uses its store: two seconds at most."""
    end = time.perf_counter() + 2
    while not is_usable(admin):
        if time.perf_counter() > end:
            raise RuntimeError("the replica does not find the store within two seconds")
        time.sleep(0.02)


def is_usable(admin):
    try:
        return metric(admin, "musickit_shared_store_usable") == 1
    except urllib.error.URLError:
        # The admin listener comes after the public one.
        return False


def zipf_paths(count, albums=5_000, exponent=1.0):
    """Paths of albums, whose popularity follows Zipf's law; the same in every run."""
    source = random.Random(1)
    sums = list(itertools.accumulate(1 / rank ** exponent for rank in range(1, albums + 1)))
    for _ in range(count):
        rank = bisect.bisect(sums, source.random() * sums[-1])
        yield f"/v1/catalog/us/albums/{1_200_000_000 + rank}"
