"""Writes docs/lab/paper.md, all finished cells beside the paper's figures with marks and reasons, and the plots."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from ctp_core.benchmarks.paper import dynamics
from ctp_core.benchmarks.paper.cells import DYNAMIC, OURS, PRESET_OF_TUNING, RANKED, cells, in_paper, systems_beside
from ctp_core.benchmarks.paper.explained import DYNAMICS, INTRODUCTION, LINK_NAMES, NAMES, REASONS, SHARED
from ctp_core.benchmarks.paper.published import CLUTRR, LENGTHS, LINKS, METRICS, Published
from ctp_core.benchmarks.paper.store import Row, Store
from ctp_core.benchmarks.paper.svg import Axes, Line, chart
from ctp_core.errors import DataError

REFERENCE = {"clutrr": "ctp-linear", "links": "ctp"}
OFF = "≠"
STRONG, WEAK = ("▼", 1e-4), ("▽", 1e-2)  # the paper's marks, and the p-values below which they are set
ROUNDING = 0.005  # a published deviation of .00 may be anything below this
TUNINGS = {
    "short": "tuned on graphs of 3 edges (preset `paper`)",
    "long": "tuned on graphs of 9 edges (preset `paper-long`)",
}

Group = tuple[str, str, str, str]  # table, data set, tuning, system


@dataclass(frozen=True)
class Results:
    """The rows of the finished cells by table, data set, tuning and system, in the order of seeds."""

    of: dict[Group, list[Row]]

    @classmethod
    def read(cls, store: Store, data: Path) -> "Results":
        """Reads all that the store has for the cells as they are now, whatever the number of seeds.

        A row of a data set that is not in `data` is taken as it is: whether its settings still hold cannot be checked.
        """
        rows = store.rows()
        by_path = {path: row for row in rows.values() for path in row["paths"]}
        seeds = 1 + max((int(path.rpartition("/")[2]) for path in by_path), default=-1)
        found: dict[Group, list[Row]] = {}
        for cell in cells(seeds):
            row = by_path.get(cell.path)
            with suppress(DataError):
                row = rows.get(cell.key(data))
            if row is not None:
                found.setdefault((cell.table, cell.dataset, cell.tuning, cell.system), []).append(row)
        return cls(found)

    @property
    def seeds(self) -> int:
        """The largest number of seeds that a cell has."""
        return max((len(rows) for rows in self.of.values()), default=0)

    def get(self, *group: str) -> list[Row]:
        return self.of.get((group[0], group[1], group[2], group[3]), [])


def write_report(results: Results, folder: Path, plots: Path | None = None) -> Path:
    """Writes paper.md to `folder` and its plots to `plots` or beside it; returns the path of paper.md."""
    plots = plots or folder
    for one in (folder, plots):
        one.mkdir(parents=True, exist_ok=True)
    to_plots = Path(os.path.relpath(plots, folder))
    sections, reasons = [INTRODUCTION.format(seeds=results.seeds, results=to_plots.as_posix())], set[str]()
    for dataset in LENGTHS:
        for tuning in PRESET_OF_TUNING:
            sections.append(_clutrr(results, dataset, tuning, plots, reasons))
    sections += [_links(results, reasons), _dynamics(results, plots), _reasons(reasons)]
    path = folder / "paper.md"
    text = "\n\n".join(section for section in sections if section) + "\n"
    path.write_text(text.replace("](paper-", f"]({(to_plots / 'paper-').as_posix()}"))
    return path


def _clutrr(results: Results, dataset: str, tuning: str, plots: Path, reasons: set[str]) -> str:
    lengths, published, beside = LENGTHS[dataset], CLUTRR[dataset, tuning], systems_beside(tuning)
    systems = [one for system in published for one in (system, *(b for b in beside if in_paper(b) == system))]
    found = {system: results.get("clutrr", dataset, tuning, system) for system in (OURS, *systems)}
    values = {system: [[f["accuracy"][i] for f in runs] for i in range(len(lengths))] for system, runs in found.items()}
    if not any(found.values()):
        return ""
    rows = []
    for system, runs in found.items():
        if system != in_paper(system) and not runs:
            continue
        cells = [
            _cell(values[system][i], values[REFERENCE["clutrr"]][i], _published(published, system, i))
            for i in range(len(lengths))
        ]
        _note(system, cells, reasons)
        seconds = f"{mean(run['cpu_seconds'] for run in runs):.0f}" if runs else ""
        rows.append([NAMES[system], *cells, str(len(runs)), seconds])
    drawn = [system for system in found if found[system] and system == in_paper(system)]
    lines = [Line(_plain(s), list(zip(lengths, map(mean, values[s]), strict=True))) for s in drawn]
    plot = f"paper-{dataset}-{tuning}.svg"
    title = f"{dataset}, {TUNINGS[tuning].split(' (')[0]}"
    (plots / plot).write_text(chart(Axes(title, "edges of the test graphs", lengths), lines))
    head = ["", *(f"{length} edges" for length in lengths), "seeds", "CPU s"]
    return f"## CLUTRR {title}\n{table(head, rows)}\n\n![Accuracy over length]({plot})"


def _links(results: Results, reasons: set[str]) -> str:
    rows = []
    for dataset, published in LINKS.items():
        metrics = ("auc_pr",) if dataset.startswith("countries") else METRICS
        found = {system: results.get("links", dataset, "", system) for system in (OURS, RANKED, *published)}
        for system, runs in found.items():
            if not runs and not any(published.get(system, ())):
                continue
            cells = [
                _cell(
                    [run["metrics"][metric] for run in runs],
                    [run["metrics"][metric] for run in found[REFERENCE["links"]]],
                    _published(published, system, i),
                    digits=3,
                )
                for i, metric in enumerate(metrics)
            ]
            _note(f"{system} (links)" if system in ("ctp", "gntp") else system, cells, reasons)
            seconds = f"{mean(run['cpu_seconds'] for run in runs):.0f}" if runs else ""
            rows.append(
                [
                    dataset,
                    (NAMES | LINK_NAMES)[system],
                    *cells,
                    *[""] * (4 - len(cells)),
                    str(len(runs)),
                    seconds,
                ]
            )
    if not any(group[0] == "links" for group in results.of):
        return ""
    head = ["data set", "", "MRR, or AUC-PR of Countries", "Hits@1", "Hits@3", "Hits@10", "seeds", "CPU s"]
    return f"## Link prediction\n{table(head, rows)}"


def _dynamics(results: Results, plots: Path) -> str:
    runs = {system: results.get("dynamics", dynamics.DATASET, "", system) for system in DYNAMIC}
    found = {system: first_points(run[0]["curve"]) for system, run in runs.items() if run}
    if not found:
        return ""
    lines = [Line(_plain(system), curve) for system, curve in found.items()]
    last = dynamics.ITERATIONS
    plot = "paper-dynamics.svg"
    axes = Axes(f"Training accuracy, {dynamics.DATASET}", "iterations (batches)", range(0, last + 1, max(1, last // 6)))
    (plots / plot).write_text(chart(axes, lines))
    rows = [
        [
            NAMES[system],
            *reached(curve, runs[system][0]["ceiling"]),
            f"{100 * max(y for _, y in curve):.1f}",
            f"{100 * curve[-1][1]:.1f}",
        ]
        for system, curve in found.items()
    ]
    head = ["", "95 % after", "99 % of the ceiling after", "99 % after", "best", f"after {last}"]
    return f"## Training dynamics\n{DYNAMICS}\n\n{table(head, rows)}\n\n![Training accuracy over iterations]({plot})"


def first_points(curve: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(x, y) for x, y in curve if x <= dynamics.ITERATIONS]


def _plain(system: str) -> str:
    """The name without Markdown."""
    return NAMES[system].replace("*", "").replace("`", "")


def reached(curve: Sequence[tuple[int, float]], ceiling: float) -> list[str]:
    firsts = (next((x for x, y in curve if y >= share), None) for share in (0.95, 0.99 * ceiling, 0.99))
    return ["not reached" if first is None else f"{first} iterations" for first in firsts]


def _cell(values: Sequence[float], reference: Sequence[float], published: Published | None, digits: int = 2) -> str:
    """`.95 ± .04▼ (.98 ± .02) ≠`: ours, the mark, the paper's, and whether they are too far apart."""
    if not values:
        return f"({_spread(published.mean, published.std, digits)})" if published else ""
    own = _spread(mean(values), stdev(values) if len(values) > 1 else None, digits) + mark(values, reference)
    if published is None:
        return own
    # Where the paper gives no deviation, ours is used; one seed has none, so every difference beyond rounding counts.
    std = published.std if published.std is not None else stdev(values) if len(values) > 1 else 0.0
    off = abs(mean(values) - published.mean) > 2 * max(std, ROUNDING)
    return f"{own} ({_spread(*published, digits)}){' ' + OFF if off else ''}"


def welch(left: Sequence[float], right: Sequence[float]) -> float | None:
    """The p-value of Welch's t-test for equal means; None where a side has fewer than two values."""
    if min(len(left), len(right)) < 2:
        return None
    if stdev(left) == stdev(right) == 0:  # no spread at all: the test would divide by 0
        return 1.0 if mean(left) == mean(right) else 0.0
    # From moments that Python computes exactly: scipy's own warn where all seeds of one side agree.
    moments = [moment for side in (left, right) for moment in (mean(side), stdev(side), len(side))]
    from scipy import stats  # noqa: PLC0415 - takes longer to load than most commands to run

    return float(stats.ttest_ind_from_stats(*moments, equal_var=False).pvalue)


def mark(values: Sequence[float], reference: Sequence[float]) -> str:
    """▼ (▽) where `values` are below the reference with p < 10⁻⁴ (10⁻²)."""
    p = welch(values, reference)
    if p is None or mean(values) >= mean(reference):
        return ""
    return next((sign for sign, level in (STRONG, WEAK) if p < level), "")


def _spread(average: float, std: float | None, digits: int) -> str:
    return short(average, digits) if std is None else f"{short(average, digits)} ± {short(std, digits)}"


def short(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.removeprefix("0") if value < 1 else text


def _published(rows: Mapping[str, Sequence[Published | None]], system: str, place: int) -> Published | None:
    return rows[in_paper(system)][place] if in_paper(system) in rows else None


def _note(system: str, cells: Sequence[str], reasons: set[str]) -> None:
    if any(cell.endswith(OFF) for cell in cells):
        reasons.add(in_paper(system))


def _reasons(systems: set[str]) -> str:
    if not systems:
        return ""
    same: dict[str, list[str]] = {}
    for table, those in ((SHARED, systems & SHARED.keys()), (REASONS, systems)):
        for system in sorted(those):
            same.setdefault(table.get(system, "not explained yet."), []).append(NAMES.get(system, system))
    lines = [f"- **{', '.join(names)}**: {reason}" for reason, names in same.items()]
    return f"## Where we differ, and why ({OFF})\n" + "\n".join(lines)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
