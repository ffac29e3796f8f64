"""The page of the ladder: a table of all rungs, how the cost grows, and a plot of it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from ctp_core.benchmarks.ladder.rungs import Row
from ctp_core.benchmarks.paper.svg import Axes, Line, log_chart

PAGE, PLOT = "ladder.md", "ladder.svg"


@dataclass(frozen=True)
class Growth:
    """How CPU seconds grow with facts: the exponent over all series, and the largest step from a rung to the next.

    A series are the rungs that differ in their facts alone. `exponent` is None with fewer than two rungs in each;
    `largest_step` is None where no rung has another below it.
    """

    exponent: float | None
    largest_step: float | None


def series(rows: Iterable[Row], figure: str = "train_cpu_seconds") -> dict[str, list[tuple[float, float]]]:
    """Series -> (facts, figure) of its rungs, by facts; rungs without the figure are left out."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in sorted(rows, key=lambda row: int(row["facts"])):
        if row.get(figure):
            _, predicates, shape = row["rung"].split("-")
            found.setdefault(f"{predicates} predicates, {shape}", []).append((row["facts"], row[figure]))
    return found


def growth(rows: Iterable[Row]) -> Growth:
    """Fits log(seconds) = exponent × log(facts) + a constant of each series, by least squares."""
    lines = [points for points in series(rows).values() if len(points) > 1]
    if not lines:
        return Growth(None, None)
    logs = [np.log(np.array(points)) for points in lines]
    centred = np.concatenate([points - points.mean(0) for points in logs])
    steps = [later[1] / earlier[1] for points in lines for earlier, later in pairwise(points)]
    return Growth(float((centred[:, 0] * centred[:, 1]).sum() / (centred[:, 0] ** 2).sum()), max(steps))


def write_report(rows: Sequence[Row], command: str, folder: Path) -> Path:
    """Writes the page and its plot; returns the page."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [Line(name, points) for name, points in series(rows).items()]
    if lines:
        (folder / PLOT).write_text(_plot(lines))
    page = folder / PAGE
    page.write_text(_page(rows, command, has_plot=bool(lines)))
    return page


def _plot(lines: Sequence[Line]) -> str:
    values = [point for line in lines for point in line.points]
    facts, seconds = ([value[place] for value in values] for place in (0, 1))
    return log_chart(
        Axes("CPU seconds of a training", "facts", _powers(facts)), lines, [float(tick) for tick in _powers(seconds)]
    )


def _powers(values: Iterable[float]) -> list[float]:
    """Powers of ten around the values."""
    exponents = [math.log10(value) for value in values]
    low, high = math.floor(min(exponents)), math.ceil(max(exponents))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _page(rows: Sequence[Row], command: str, *, has_plot: bool) -> str:
    grown = growth(rows)
    settings = sorted({f"`{row['preset']}`" + (f" with `{row['method']}`" if row["method"] else "") for row in rows})
    commits = sorted({str(row.get("commit")).rpartition("+")[2] for row in rows})
    parts = [
        "# The ladder: KBs that nobody tuned for",
        "",
        f"    {command}",
        "",
        INTRODUCTION.format(settings=" and ".join(settings), commits=", ".join(f"`{commit}`" for commit in commits)),
        "",
        *([f"![CPU seconds over facts]({PLOT})", ""] if has_plot else []),
        _growth_said(grown),
        "",
        *_table(rows),
        "",
        *_failures(rows),
    ]
    return "\n".join(parts).rstrip() + "\n"


INTRODUCTION = """\
Each rung is a KB made by our own generator (`ctp kb generate`): typed entities with hubs, planted rules of one to three
atoms (inverse, symmetric, with constants), exceptions and noise. It is trained with the preset {settings}, in a process
of its own with one thread. Commit of the rows: {commits}.

- **MRR**: filtered, of test facts in both directions. *planted*: that of the planted rules, applied by hand to the
  training facts.
- **rules**: planted rules that are listed; of a head with k of them, among its first k + 2. Those with constants count
  in the list with constants.
- **CPU s**, **MB**: of training, decoding rules and storing the model. *forecast*: made before, over what happened.
- **ECE**: expected calibration error (10 bins) over each test question's ten best unknown answers and all others scored
  ≥ .1, each question once, against what is true in the generated world, stated or not.
- **query**: CPU milliseconds of a question with ten answers and three proofs each: the first after loading, and the
  median of later ones."""


def _growth_said(grown: Growth) -> str:
    if grown.exponent is None or grown.largest_step is None:
        return "Too few rungs were measured to tell how the cost grows."
    return (
        f"CPU seconds grow with the number of facts to the power of **{grown.exponent:.2f}** (least squares, with one "
        f"constant for each series); the largest step from one rung to the next is {grown.largest_step:.1f} ×."
    )


HEAD = (
    *("facts", "predicates", "shape", "entities", "MRR", "planted", "rules", "CPU s", "forecast", "MB", "forecast"),
    *("ECE", "first query", "warm query"),
)


def _table(rows: Sequence[Row]) -> list[str]:
    cells = [_cells(row) for row in rows]
    return [_line(HEAD), _line(["---"] * len(HEAD)), *map(_line, cells)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Row) -> list[str]:
    found = f"{row['planted_found']}/{row['planted_rules']}" if row["planted_rules"] is not None else "–"
    forecast_mb = row["forecast_bytes"] and row["forecast_bytes"] / 2**20
    return [
        f"{row['facts']:,}",
        f"{row['predicates']:,}",
        row["shape"],
        _number(row.get("entities"), ",d"),
        _number(row["mrr"], ".3f"),
        _number(row["planted_mrr"], ".3f"),
        found,
        _number(row["train_cpu_seconds"], ".1f"),
        _ratio(row["forecast_cpu_seconds"], row["train_cpu_seconds"]),
        _number(row["peak_rss_mb"], ",.0f"),
        _ratio(forecast_mb, row["peak_rss_mb"]),
        _number(row["ece"], ".3f"),
        _number(row["first_query_ms"], ",.0f"),
        _number(row["warm_query_ms"], ",.0f"),
    ]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else f"{value:{form}}"


def _ratio(forecast: float | None, actual: float | None) -> str:
    return "–" if not forecast or not actual else f"{forecast / actual:.1f} ×"


def _failures(rows: Sequence[Row]) -> list[str]:
    return [f"- {row['rung']}: {row['failed']}" for row in rows if row.get("failed")]
