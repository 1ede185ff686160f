"""Two servers that take turns at the same load, and the rows that come of it."""

import sys

from .report import Row, Spread


class Comparison:
    """How long and how often each server is measured, and the rows so far. Subclasses have the steps."""

    def __init__(self, directory, binary, credentials, quick):
        self.directory, self.binary, self.credentials = directory, binary, credentials
        self.seconds, self.rounds, self.starts = (1, 3, 5) if quick else (2, 5, 15)
        self.rows = []
        self.costs = []

    @property
    def steps(self):
        """What is measured, in order: methods, whose documentation is their name."""
        raise NotImplementedError

    def run(self):
        for number, step in enumerate(self.steps, 1):
            print(f"[{number}/{len(self.steps)}] {step.__doc__}", file=sys.stderr, flush=True)
            step()

    def _beside(self, name, pair, measure, **options):
        """Measures both in turn; adds the ratio of CPU times, and what each cost."""
        ours, theirs = self._alternate(pair, measure, **options)
        if "handshake" not in name:
            self._compare(f"{name}: CPU", *([sample.microseconds for sample in half] for half in (ours, theirs)))
        self._cost(f"{name}, ours", ours)
        self._cost(f"{name}, nginx", theirs)
        return ours, theirs

    def _alternate(self, pair, measure, rounds=None, **options):
        """Ours and nginx in turn, the other one first in every other round."""
        halves = {subject: [] for subject in pair}
        for number in range(rounds or self.rounds):
            for subject in pair if number % 2 == 0 else reversed(pair):
                with subject.start(**options) as server:
                    halves[subject].append(measure(server))
        return tuple(halves.values())

    def _compare(self, work, ours, theirs):
        ratio = Spread.ratios(ours, theirs)
        self.rows.append(Row(
            work, ratio.text("×"), "≤ 1.0×", ratio.median <= 1.0, Spread.of(ours).text(" µs"),
            Spread.of(theirs).text(" µs")))

    def _cost(self, name, samples):
        figures = [Spread.of(getattr(sample, kind) for sample in samples) for kind in (
            "microseconds", "user", "system")]
        self.costs.append([
            name, figures[0].text(), *(f"{figure.median:.2f}" for figure in figures[1:]),
            Spread.of(sample.rate for sample in samples).text(digits=0)])
