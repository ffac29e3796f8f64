"""Line charts as SVG, written by hand: two plots do not need a plotting library, and text can be compared in git."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 780, 400, 52, 220, 34, 44
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#999999",
)  # can be told apart with any colour vision
DASHES = ("", "6 3", "2 3")


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axes:
    """y runs from 0 to 100 %, unless a chart is given other ticks."""

    title: str
    x_title: str
    ticks: Sequence[float]


def chart(axes: Axes, lines: Sequence[Line]) -> str:
    """An SVG document; lines differ in colour, and where colours run out in dashes."""
    low, high = min(axes.ticks), max(axes.ticks)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / ((high - low) or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - y) * (HEIGHT - TOP - BOTTOM)

    parts = []
    for percent in range(0, 101, 20):
        (left, y), (right, _) = place(low, percent / 100), place(high, 0)
        parts.append(f'<path d="M{left:.1f} {y:.1f}H{right:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>')
    for tick in axes.ticks:
        x, y = place(tick, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{tick:g}</text>')
    for number, line in enumerate(lines):
        parts += _drawn(line, number, [place(x, y) for x, y in line.points])
    return _document(axes, parts)


def log_chart(axes: Axes, lines: Sequence[Line], y_ticks: Sequence[float]) -> str:
    """An SVG document with both axes on a scale of powers; x and y must be above 0."""
    (left, right), (low, high) = [[math.log(end(ticks)) for end in (min, max)] for ticks in (axes.ticks, y_ticks)]

    def place(x: float, y: float) -> tuple[float, float]:
        across, up = (math.log(x) - left) / ((right - left) or 1), (math.log(y) - low) / ((high - low) or 1)
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + (1 - up) * (HEIGHT - TOP - BOTTOM)

    parts = []
    for tick in y_ticks:
        x, y = place(min(axes.ticks), tick)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for tick in axes.ticks:
        x, y = place(tick, min(y_ticks))
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{tick:,.0f}</text>')
    for number, line in enumerate(lines):
        parts += _drawn(line, number, [place(x, y) for x, y in line.points])
    return _document(axes, parts)


def _document(axes: Axes, parts: Sequence[str]) -> str:
    middle, bottom = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8
    title = f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{escape(axes.title)}</text>'
    under = f'<text x="{middle}" y="{bottom}" text-anchor="middle">{escape(axes.x_title)}</text>'
    size, font = f'viewBox="0 0 {WIDTH} {HEIGHT}"', 'font-family="sans-serif" font-size="11"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>'
    paper = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    return "\n".join([head, paper, title, *parts, under, "</svg>", ""])


def _drawn(line: Line, number: int, points: Sequence[tuple[float, float]]) -> list[str]:
    colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
    style = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" fill="none"'
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    y = TOP + 6 + 20 * number
    x = WIDTH - RIGHT + 14
    return [
        f'<path d="{path}" {style}><title>{escape(line.name)}</title></path>',
        f'<path d="M{x} {y}h24" {style}/>',
        f'<text x="{x + 30}" y="{y + 4}">{escape(line.name)}</text>',
    ]
