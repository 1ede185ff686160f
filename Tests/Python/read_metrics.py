"""Reads metrics with a parser that is not ours, Prometheus's own for Python, and holds them against the format's rules.

usage: read_metrics.py < PAGE

Prints the metrics and their samples as JSON; exits 1 at the first thing that is not as
https://prometheus.io/docs/instrumenting/exposition_formats/ has it.
"""

import json
import math
import sys

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    sys.exit(f"{error}; `make test` installs prometheus_client and sets TEST_PYTHON to its interpreter.")


def check(condition, what):
    if not condition:
        sys.exit(what)


def check_histogram(family):
    """The buckets of each series grow up to +Inf, which has all that were counted."""
    series = {}
    for sample in family.samples:
        labels = {name: value for name, value in sample.labels.items() if name != "le"}
        part = series.setdefault(tuple(sorted(labels.items())), {"buckets": []})
        if sample.name.endswith("_bucket"):
            part["buckets"].append((float(sample.labels["le"]), sample.value))
        else:
            part[sample.name[len(family.name):]] = sample.value
    for labels, part in series.items():
        check(part["buckets"] == sorted(part["buckets"]), f"buckets out of order: {labels}")
        counts = [count for _, count in part["buckets"]]
        check(counts == sorted(counts), f"buckets are not cumulative: {labels}")
        check(part["buckets"][-1] == (math.inf, part["_count"]), f"+Inf is not the count: {labels}")
        check("_sum" in part, f"no sum: {labels}")


def main():
    text = sys.stdin.buffer.read().decode("utf-8")
    check(text.endswith("\n"), "the last line has no end")
    metrics, samples, seen = [], [], set()
    for family in text_string_to_metric_families(text):
        name = family.name + ("_total" if family.type == "counter" else "")
        check(f"# TYPE {name} {family.type}\n" in text, f"no TYPE: {name}")
        check(f"# HELP {name} " in text and family.documentation, f"no HELP: {name}")
        check(name not in [metric["name"] for metric in metrics], f"twice: {name}")
        metrics.append({"name": name, "type": family.type})
        if family.type == "histogram":
            check_histogram(family)
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            check(key not in seen, f"twice: {key}")
            seen.add(key)
            check(math.isfinite(sample.value), f"no number: {key}")
            check(family.type != "counter" or sample.value >= 0, f"a negative count: {key}")
            samples.append({"name": sample.name, "labels": sample.labels, "value": sample.value})
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    check(len(lines) == len(samples), f"{len(lines)} lines, {len(samples)} samples")
    print(json.dumps({"metrics": metrics, "samples": samples}))


main()
