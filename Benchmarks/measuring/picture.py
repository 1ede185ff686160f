"""A picture of two runs over time, readable on a light and on a dark page."""

WIDTH, HEIGHT, LEFT, TOP, GAP = 420, 150, 50, 60, 60
# The columns of `Result.seconds`. If a panel names several, the picture shows their sum.
PANELS = [("sent upstream, and refused by it", [((0, 1), "sent"), ((1,), "refused")]),
          ("served to each client", [((2,), "greedy"), ((3,), "modest")])]

# For a light and for a dark page.
COLOURS = {
    "blue": ("#0969da", "#58a6ff"), "red": ("#cf222e", "#ff7b72"), "violet": ("#8250df", "#bc8cff"),
    "green": ("#1a7f37", "#56d364")}


def style(colours):
    """The style of a picture whose lines have these classes, each with the name of its colour."""
    light, dark = (
        "\n".join(
            f".{name} {{ stroke: {COLOURS[colour][page]} }} text.{name} {{ fill: {COLOURS[colour][page]}; stroke: none }}"
            for name, colour in colours.items())
        for page in (0, 1))
    return f"""
text {{ font: 13px system-ui, sans-serif; fill: #24292f }} .title {{ font-weight: 600; font-size: 15px }}
.axis {{ stroke: #57606a; stroke-width: 1 }} .grid {{ stroke: #d0d7de; stroke-width: 1 }}
.quota {{ stroke: #57606a; stroke-width: 1; stroke-dasharray: 4 3 }}
polyline {{ fill: none; stroke-width: 1.8 }}
{light}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }} .axis, .quota {{ stroke: #9198a1 }} .grid {{ stroke: #3d444d }}
{dark}
}}"""


def svg(title, width, height, colours, parts):
    """A whole picture."""
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
            f"\n<title>{title}</title>\n<style>{style(colours)}\n</style>\n" + "\n".join(parts) + "\n</svg>\n")


def draw(mine, theirs, connections):
    """An SVG of both: a column for each server, a row for each panel."""
    case = mine.case
    runs = [("this server", mine), (f"nginx, limit_req rate={case.quota}r/s", theirs)]
    parts = []
    for row, (panel, lines) in enumerate(PANELS):
        top = TOP + row * (HEIGHT + GAP)
        most = max(value(second, columns) for _, run in runs for second in run.seconds for columns, _ in lines)
        for column, (name, run) in enumerate(runs):
            left = LEFT + column * (WIDTH + GAP)
            parts.append(panel_of(run, lines, panel, left, top, max(most, case.quota) * 1.1, case.quota))
            if row == 0:
                parts.append(f'<text class="title" x="{left}" y="{TOP - 34}">{name}</text>')
    width, height = LEFT + 2 * WIDTH + GAP + 20, TOP + 2 * (HEIGHT + GAP)
    title = (f"Requests a second over a minute: a greedy client with {connections} connections and a modest one, before "
             f"a {case.limiter} of {case.quota} requests a second with {case.milliseconds} ms of latency")
    return svg(title, width, height, {"sent": "blue", "refused": "red", "greedy": "violet", "modest": "green"}, parts)


def value(second, columns):
    return sum(second[column] for column in columns)


def panel_of(run, lines, title, left, top, most, quota):
    def y(number):
        return top + HEIGHT * (1 - number / most)

    seconds = len(run.seconds)
    parts = [f'<text x="{left}" y="{top - 10}">{title}</text>']
    for number in range(0, int(most) + 1, step(most)):
        parts.append(f'<line class="grid" x1="{left}" x2="{left + WIDTH}" y1="{y(number):.1f}" y2="{y(number):.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y(number) + 4:.1f}" text-anchor="end">{number}</text>')
    parts.append(f'<line class="quota" x1="{left}" x2="{left + WIDTH}" y1="{y(quota):.1f}" y2="{y(quota):.1f}"/>')
    parts.append(f'<line class="axis" x1="{left}" x2="{left + WIDTH}" y1="{top + HEIGHT}" y2="{top + HEIGHT}"/>')
    for second in range(0, seconds + 1, 10):
        parts.append(
            f'<text x="{left + WIDTH * second / seconds:.1f}" y="{top + HEIGHT + 18}" text-anchor="middle">{second} s</text>')
    for index, (columns, name) in enumerate(lines):
        points = " ".join(
            f"{left + WIDTH * (number + 0.5) / seconds:.1f},{y(value(second, columns)):.1f}"
            for number, second in enumerate(run.seconds))
        parts.append(f'<polyline class="{name}" points="{points}"/>')
        parts.append(f'<text class="{name}" x="{left + WIDTH - 130 + index * 75}" y="{top - 10}">— {name}</text>')
    return "\n".join(parts)


def step(most):
    return next(size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**6) if most / size <= 6)
