"""What happens to the servers while they are under load: one method each, which waits for every effect."""

import signal
import time
from collections import Counter

from journal import eventually
from processes import Emulator, Server, Store

# Requests that Apple Music fails in each outage, and those that succeed in a row after it.
FAILED, WELL = 12, 25
# A quota for each emulator, with TLS and without: a little less than the load requests there.
QUOTA = {True: 18, False: 9}


class Events:
    """Changes the world of the servers, and the truth about it."""

    def __init__(self, ground, truth, judge, binary, keys, settings, store):
        self.ground, self.truth, self.judge, self.binary = ground, truth, judge, binary
        # Keys that have not signed yet.
        self.keys, self.settings = keys, settings
        self.counts, self.seconds = Counter(), Counter()
        self.servers, self.ended, self.store = [], [], store
        # The expected lines of level error or worse, by the beginnings of their messages.
        self.expected_errors = ["The new settings are invalid, so the old ones stay in use."]
        self.successors = 0

    def cycle(self):
        """Everything once."""
        for event in (
            self.rotate_key, self.replace_api_key, self.change_lifetime, self.damage_settings, self.renew_certificate,
            self.fail_with_status, self.hang, self.break_connections, self.limit, self.die, self.stop_store,
            self.replace_store, self.rotate_audit_log, self.hand_over,
        ):
            begin = time.monotonic()
            event()
            self.counts[event.__name__] += 1
            self.seconds[event.__name__] += time.monotonic() - begin

    # Settings.

    def write(self, **values):
        self.settings = self.settings.changed(**values)
        self.ground.write(self.settings)

    def reload(self, **values):
        """Changes settings, and returns when every server has them."""
        self.write(**values)
        for server in self.servers:
            server.reload()

    def rotate_key(self):
        """A next key proves itself and signs; then it is the active one, and the old one is retired."""
        old, new = self.settings.keys[0], self.keys.pop(0)
        self.truth.add_key(new)
        marks = {server: server.journal.mark() for server in self.servers}
        self.reload(keys=(old, new), states=("active", "next"))
        for server, mark in marks.items():
            server.journal.wait("Signing key promoted", mark, **{"key.id": new.id, "key.previous": old.id})
        self.truth.keys.end(old.id)
        self.reload(keys=(new, old), states=("active", "retired"))

    def replace_api_key(self):
        """The API key of a client is replaced: first both are accepted, then only the new one."""
        old, new = self.truth.api_key, self.ground.api_key()
        self.truth.api_keys.begin(new)
        self.reload(rotating=(old, new))
        self.truth.api_key, self.truth.former_api_key = new, old
        self.truth.refused_api_keys.begin(old)
        self.reload(rotating=(new,))
        self.truth.api_keys.end(old)

    def change_lifetime(self):
        """The lifetime of a client's tokens changes."""
        old = self.settings.web_ttl
        new = 5400 if old == 3600 else 3600
        self.truth.web_ttls.begin(new)
        self.reload(web_ttl=new)
        self.truth.web_ttls.end(old)

    def damage_settings(self):
        """Settings that cannot be read change nothing."""
        before = {server: server.metrics()["musickit_reloads_refused_total"] for server in self.servers}
        self.write(damage='{ "musickit": ')
        for server in self.servers:
            server.signal(signal.SIGHUP)
        for server in self.servers:
            metrics = eventually(
                f"{server.name} refuses the reload",
                lambda: (page := server.metrics())["musickit_reloads_refused_total"] > before[server] and page)
            if metrics["musickit_settings_stale"] != 1:
                self.judge.wrong(f"{server.name}: musickit_settings_stale is not 1 after a refused reload")
        self.served()
        self.reload(damage="")
        for server in self.servers:
            if server.metrics()["musickit_settings_stale"] != 0:
                self.judge.wrong(f"{server.name}: musickit_settings_stale is not 0 after a reload")

    def renew_certificate(self):
        """A new certificate, in turn with the same private key and with a new one, which ends all tickets."""
        old = self.settings.certificate
        new = self.ground.certificate(old.key if self.counts["renew_certificate"] % 2 else None)
        self.truth.certificate_keys[new.digest] = new.key_digest
        self.truth.certificates.begin(new.digest)
        self.truth.ticket_keys.begin(new.key_digest)
        self.reload(certificate=new)
        self.truth.certificates.end(old.digest)
        if old.key_digest != new.key_digest:
            self.truth.ticket_keys.end(old.key_digest)
        self.served()

    # Apple Music.

    @property
    def emulators(self):
        return {server.emulator for server in self.servers}

    def outage(self, statuses, begin, end):
        """Apple Music fails until some requests have got one of these statuses, and then recovers."""
        for status in statuses:
            self.truth.failures.begin(status)
        before = self.judge.sent(statuses)
        begin()
        eventually(f"{FAILED} requests get one of {statuses}", lambda: self.judge.sent(statuses) - before >= FAILED)
        end()
        self.recover()
        for status in statuses:
            self.truth.failures.end(status)

    def recover(self):
        """Waits until the servers know that Apple Music is well."""
        for server in self.servers:
            def is_well():
                page = server.metrics()
                return not page["musickit_upstream_circuit_open"] and not page["musickit_upstream_paused"]
            eventually(f"{server.name} sends requests to Apple Music again", is_well)
        self.judge.streak = 0
        # After a limit, the servers find out by and by that they may send more.
        eventually("Apple Music serves requests again, and none waits", lambda: self.judge.streak >= WELL, limit=180)

    def fail_with_status(self):
        """Apple Music responds with 503."""
        fault = {"fault": "status=503", "path": "/v1/catalog/"}
        self.outage(
            (502,), lambda: [emulator.behave(faults=[fault]) for emulator in self.emulators],
            lambda: [emulator.behave() for emulator in self.emulators])

    def break_connections(self):
        """Responses of Apple Music break off, and connections end after a response."""
        faults = [{"fault": "reset", "path": "/v1/catalog/", "count": 40},
                  {"fault": "goaway", "path": "/v1/catalog/", "count": 40}]
        self.outage(
            (502,), lambda: [emulator.behave(faults=faults) for emulator in self.emulators],
            lambda: [emulator.behave() for emulator in self.emulators])

    def hang(self):
        """Apple Music is stopped, and then continues. In every second cycle, a server drains meanwhile."""
        def stop():
            for emulator in self.emulators:
                emulator.signal(signal.SIGSTOP)
            if self.counts["hang"] % 2:
                self.hand_over()
        self.outage((502, 504), stop, lambda: [emulator.signal(signal.SIGCONT) for emulator in self.emulators])

    def limit(self):
        """Apple Music has a small quota for some time."""
        for status in (429, 503, 504):
            self.truth.failures.begin(status)
        before = {emulator: emulator.statuses().get("429", 0) for emulator in self.emulators}
        for emulator in self.emulators:
            emulator.behave(limit=f"sliding-window:{QUOTA[emulator.is_secure]}/1s")
        for emulator in self.emulators:
            eventually(
                f"{emulator.name} limits requests", lambda: emulator.statuses().get("429", 0) - before[emulator] >= 3)
        for emulator in self.emulators:
            emulator.behave()
        self.recover()
        for status in (429, 503, 504):
            self.truth.failures.end(status)

    def die(self):
        """The process of the emulator without TLS ends, and another one takes its port. It has no retired keys."""
        [server] = [server for server in self.servers if not server.emulator.is_secure]
        old = server.emulator

        def kill():
            old.signal(signal.SIGKILL)
            old.ended()

        def start():
            keys = [self.settings.keys[0], *self.keys[:2]]
            server.emulator = Emulator(
                f"{old.name}", self.binary, self.ground.directory, keys, old.port, is_secure=False)
        self.outage((502, 504), kill, start)

    # The store of the replicas.

    def stop_store(self):
        """The store hangs, and then continues."""
        self.lose_store(
            lambda: self.store.signal(signal.SIGSTOP), lambda: self.store.signal(signal.SIGCONT))

    def replace_store(self):
        """The store ends, and another one takes its port. It knows nothing."""
        def kill():
            self.store.signal(signal.SIGKILL)
            self.store.ended()

        def start():
            self.store = Store("store", self.ground.directory, self.store.port)
        self.lose_store(kill, start)

    def lose_store(self, begin, end):
        """Each replica goes on by itself without the store, and with the others afterwards."""
        self.shares(1)
        begin()
        self.shares(0)
        self.served()
        end()
        self.shares(1)
        self.served()

    def shares(self, value):
        for server in self.servers:
            if server.is_replica:
                eventually(
                    f"musickit_shared_store_usable of {server.name} is {value}",
                    lambda: server.metrics()["musickit_shared_store_usable"] == value)

    # Operation.

    def rotate_audit_log(self):
        """The audit log is moved away, as logrotate does."""
        self.ground.audit.rename(f"{self.ground.audit}.{self.counts['rotate_audit_log']}")
        eventually("the servers create the audit log", self.ground.audit.exists)

    def start(self, emulator, name):
        server = Server(name, self.binary, self.ground, emulator, self.store)
        self.servers.append(server)
        return server

    def hand_over(self):
        """The last server drains while its successor serves."""
        old = self.servers[-1]
        self.successors += 1
        self.start(old.emulator, f"successor-{self.successors}")
        self.served()
        self.truth.drains.begin(True)
        old.signal(signal.SIGTERM)
        status = old.ended()
        self.truth.drains.end(True)
        if status != 0:
            self.judge.wrong(f"{old.name}: the exit status is {status}, not 0")
        self.servers.remove(old)
        self.ended.append(old)

    def served(self, count=100):
        """Waits until so many more responses have arrived."""
        before = len(self.judge.claims)
        eventually(f"{count} more responses", lambda: len(self.judge.claims) - before >= count)
