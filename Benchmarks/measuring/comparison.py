"""Servers that take turns at the same load, and the rows that come of it."""

import sys
from statistics import median

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

    def _beside(self, name, subjects, measure, against=None, **options):
        """Measures all in turn; adds the ratio of CPU times, ours to the best other or to `against`, and each one's costs."""
        samples = self._alternate(subjects, measure, **options)
        ours, *theirs = ([sample.microseconds for sample in part] for part in samples)
        self._compare(f"{name}: CPU", ours, {
            subject.name: times for subject, times in zip(subjects[1:], theirs) if subject.name == (against or subject.name)})
        for subject, part in zip(subjects, samples):
            self._cost(f"{name}, {subject.name}", part)
        return samples

    def _alternate(self, subjects, measure, rounds=None, **options):
        """What is measured of each in turn; each round begins with another one."""
        measured = [[] for _ in subjects]
        for number in range(rounds or self.rounds):
            for turn in range(len(subjects)):
                index = (number + turn) % len(subjects)
                with subjects[index].start(**options) as server:
                    measured[index].append(measure(server))
        return measured

    def _compare(self, work, ours, theirs, aim=1.0, unit=" µs"):
        """A row for ours beside the best of the others, which is the one with the lowest median."""
        best = min(theirs, key=lambda name: median(theirs[name]))
        ratio = Spread.ratios(ours, [max(value, 1e-9) for value in theirs[best]])
        self.rows.append(Row(
            work, ratio.text("×"), f"≤ {aim}×", ratio.median <= aim, Spread.of(ours).text(unit),
            f"{best} {Spread.of(theirs[best]).text(unit)}"))

    def _cost(self, name, samples):
        figures = [Spread.of(getattr(sample, kind) for sample in samples) for kind in (
            "microseconds", "user", "system")]
        self.costs.append([
            name, figures[0].text(), *(f"{figure.median:.2f}" for figure in figures[1:]),
            Spread.of(sample.rate for sample in samples).text(digits=0)])
