"""The checks at the end: logs, audit log and metrics agree with what the clients saw, and have no secret."""

import json
import subprocess
from collections import Counter

from journal import eventually

NEVER = (
    "musickit_log_lines_dropped_total", "musickit_audit_lines_dropped_total", "musickit_token_failures_total",
    "musickit_upstream_token_rejections_total", "musickit_connections_refused_total", "musickit_memory_refusals_total",
    "musickit_accept_pauses_total",
)
# At most so many examples of each finding.
EXAMPLES = 5


def agreement(server, metrics):
    """Compares the metrics of a server at rest with its access lines, and with what must never happen."""
    found = [f"{server.name}: {name} is {metrics[name]}, not 0" for name in NEVER if metrics[name]]
    counted = Counter({
        (route, method, int(code)): int(value)
        for (route, method, code), value in metrics.by(
            "musickit_http_requests_total", "route", "method", "code").items()})
    lines = server.journal.counts

    def agree():
        # The server writes lines together, some milliseconds after the responses.
        server.journal.read()
        return counted == lines
    try:
        eventually("metrics and access lines agree", agree, limit=10)
        return found
    except TimeoutError:
        pass
    different = {key: (counted[key], lines[key]) for key in counted | lines if counted[key] != lines[key]}
    return [*found, f"{server.name}: metrics and access lines differ (metric, lines): {different}"]


def accesses(servers, judge):
    """Each response has exactly one access line with its status; other lines are of clients that went away."""
    found, lines = [], {}
    for server in servers:
        server.journal.read()
        found += [f"{server.name}: a log line is no object: {line!r}" for line in server.journal.foreign[:EXAMPLES]]
        repeated = server.journal.repeated + [key for key in server.journal.accesses if key in lines]
        found += [f"{server.name}: two access lines have the ID {key}" for key in repeated[:EXAMPLES]]
        lines |= server.journal.accesses
    missing = [
        f"no access line for {claim} with the ID {key}" for key, claim in judge.claims.items() if key not in lines]
    other = [
        f"the access line of {claim} with the ID {key} has the status {lines[key][2]}"
        for key, claim in judge.claims.items() if key in lines and lines[key][2] != claim.status]
    found += missing[:EXAMPLES] + other[:EXAMPLES]
    unclaimed = [key for key in lines if key not in judge.claims]
    if len(unclaimed) > judge.abandoned:
        examples = [lines[key] for key in unclaimed[:EXAMPLES]]
        found.append(
            f"{len(unclaimed)} access lines belong to no response, and {judge.abandoned} clients gave up: {examples}")
    return found


def audit(files, judge):
    """Each grant and each refusal has exactly one audit line, of the right client and with the right token."""
    found, records, events = [], {}, Counter()
    for file in files:
        for line in file.read_bytes().splitlines():
            record = json.loads(line)
            if "audit.event" in record:
                events[record["audit.event"]] += 1
            elif record["request.id"] in records:
                found.append(f"two audit lines have the ID {record['request.id']}")
            else:
                records[record["request.id"]] = record
    wrong = []
    for key, claim in judge.claims.items():
        record = records.get(key)
        if (record is None) != (claim.client is None):
            wrong.append(f"{'no' if record is None else 'an'} audit line for {claim}: {record}")
        elif record is not None:
            client = record["client.id"]
            is_granted = record["audit.outcome"] == "granted"
            if claim.client != client and not (claim.client == "?" and client in ("rotating", "-")):
                wrong.append(f"the audit line of {claim} has another client: {record}")
            elif claim.token and claim.token != record.get("token.sha256"):
                wrong.append(f"the audit line of {claim} has another token: {record}")
            elif is_granted and claim.kind.startswith("error"):
                wrong.append(f"the audit line of {claim} has a grant: {record}")
    unclaimed = [record for key, record in records.items() if key not in judge.claims]
    if len(unclaimed) > judge.abandoned:
        wrong.append(f"{len(unclaimed)} audit lines belong to no response: {unclaimed[:EXAMPLES]}")
    return found[:EXAMPLES] + wrong[:EXAMPLES], len(records), events


def errors(servers, expected):
    """Lines of level error or worse that no event explains, and lost lines."""
    found = []
    for server in servers:
        for line in server.journal.others:
            if line["level"] in ("error", "critical") and not line["message"].startswith(tuple(expected)):
                found.append(f"{server.name}: unexpected log line {line}")
            if "log.dropped" in line:
                found.append(f"{server.name}: {line}")
    return found[:EXAMPLES]


def secrets(files, patterns, directory):
    """Searches the files for secrets: API keys, the signatures of JWTs and tokens, and lines of private keys."""
    list_file = directory / "secrets"
    list_file.write_text("\n".join(sorted(pattern for pattern in patterns if len(pattern) >= 16)) + "\n")
    result = subprocess.run(
        ["grep", "-aFn", "-m", "3", "-f", list_file, *files, "/dev/null"], stdout=subprocess.PIPE, text=True,
        env={"LC_ALL": "C"}, check=False)
    return [f"a secret is in {line[:400]}" for line in result.stdout.splitlines()[:EXAMPLES]]
