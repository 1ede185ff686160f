"""The rows of the table: what was seen of a situation, and whether that is what should be seen."""

from dataclasses import dataclass

from .contained import percentile

HEALTH = 0.1


@dataclass(frozen=True)
class Verdict:
    """A row: what was seen, and whether that is what should be seen. One without an aim only informs."""

    situation: str
    measured: str
    seen: str
    aim: str = ""
    is_met: bool | None = None

    @property
    def cells(self):
        return [self.situation, self.measured, self.seen, self.aim, {True: "yes", False: "no", None: ""}[self.is_met]]


def flat(name, what, times, usual):
    """Whether the 99th percentile is what it is at four fifths of the capacity, or unnoticed by a person."""
    slow, before = percentile(times), percentile(usual)
    return Verdict(
        name, f"{what}: 99th percentile", f"{slow * 1000:,.0f} ms; {before * 1000:,.0f} ms at 80 % of capacity",
        "≤ 100 ms, or 3× that at 80 %", bool(times) and slow <= max(0.1, 3 * before))


def healthy(name, seen, late, with_public=True):
    for check, times in seen.items():
        if check == "token, kept":
            yield Verdict(
                name, check, times.text(), "no failure", times.failed == 0)
        else:
            counts = with_public or "admin" in check
            is_met = times.failed == 0 and bool(times.times) and max(times.times) <= HEALTH
            yield Verdict(name, check, times.text(), "≤ 100 ms" if counts else "", is_met if counts else None)
    if late > 0.02:
        yield Verdict(name, "the probes themselves were late", f"up to {late * 1000:.0f} ms")


def within_memory(name, server):
    yield Verdict(
        name, "most memory of the group", f"{server.group.peak >> 20} MB, {server.group.kills} killed",
        "256 MB, none killed", server.group.kills == 0 and server.child.poll() is None)
