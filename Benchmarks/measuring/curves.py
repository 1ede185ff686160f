"""A picture of how something grows: a line for each server, over amounts at even distances."""

from . import picture

WIDTH, HEIGHT, LEFT, TOP = 520, 200, 70, 50
COLOURS = {"ours": "blue", "nginx": "green", "HAProxy": "red", "h2o": "violet"}


def draw(title, unit, labels, lines):
    """An SVG. `lines` has, for each server, a number for each of the labels."""
    most = max(max(values) for values in lines.values()) * 1.15
    size = step(most)

    def x(index):
        return LEFT + WIDTH * (index + 0.5) / len(labels)

    def y(number):
        return TOP + HEIGHT * (1 - number / most)

    parts = [f'<text class="title" x="{LEFT}" y="20">{title}</text>', f'<text x="{LEFT}" y="{TOP - 10}">{unit}</text>']
    for number in range(int(most / size) + 1):
        height = y(number * size)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">{number * size:g}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{TOP + HEIGHT}" y2="{TOP + HEIGHT}"/>')
    for index, label in enumerate(labels):
        parts.append(f'<text x="{x(index):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{label}</text>')
    for index, (name, values) in enumerate(lines.items()):
        points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in enumerate(values))
        parts.append(f'<polyline class="{name}" points="{points}"/>')
        parts.append(
            f'<text class="{name}" x="{LEFT + WIDTH - 85 * (len(lines) - index)}" y="20">— {name}</text>')
    colours = {name: COLOURS[name] for name in lines}
    return picture.svg(title, LEFT + WIDTH + 20, TOP + HEIGHT + 30, colours, parts)


def step(most):
    """A round distance of the lines of the grid, of which there are six at most."""
    power = 10.0 ** -6
    while most / (10 * power) > 6:
        power *= 10
    return next(factor * power for factor in (1, 2, 5, 10) if most / (factor * power) <= 6)
