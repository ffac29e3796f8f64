"""Writes docs/results/paper.md, one short page with the figures most readers look for; `report` writes all."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean

from ctp_core.benchmarks.paper import dynamics
from ctp_core.benchmarks.paper.cells import DYNAMIC, OURS, RANKED
from ctp_core.benchmarks.paper.explained import LINK_NAMES, NAMES, SUMMARY
from ctp_core.benchmarks.paper.published import CLUTRR, LENGTHS, LINKS, Published
from ctp_core.benchmarks.paper.report import Results, first_points, reached, short, table
from ctp_core.benchmarks.paper.store import Row

TUNING = "short"  # the long tuning has the same provers; its networks are in the full report
COMMAND = "    ctp bench paper --data DIR --seeds {seeds} --only '{cells}' --resume"


def write_summary(results: Results, folder: Path, lab: Path) -> Path:
    """Writes paper.md to `folder`, with a link to the one in `lab`; returns its path. `write_report` plots."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = [
        SUMMARY.format(lab=Path(os.path.relpath(lab, folder)).as_posix()),
        *(_clutrr(results, dataset) for dataset in LENGTHS),
        _links(results),
        _dynamics(results),
    ]
    path = folder / "paper.md"
    path.write_text("\n\n".join(section for section in sections if section) + "\n")
    return path


def _clutrr(results: Results, dataset: str) -> str:
    lengths, published = LENGTHS[dataset], CLUTRR[dataset, TUNING]
    rows, most = [], 0
    for system in (OURS, *published):
        runs = results.get("clutrr", dataset, TUNING, system)
        if runs:
            cells = [
                _cell([run["accuracy"][i] for run in runs], published[system][i] if system in published else None, 2)
                for i in range(len(lengths))
            ]
            rows.append([NAMES[system], *cells, str(len(runs)), _commits(runs)])
            most = max(most, len(runs))
    head = ["edges", *map(str, lengths), "seeds", "commits"]
    plot = f"![Accuracy over length](paper-{dataset}-{TUNING}.svg)"
    return _section(f"CLUTRR {dataset}: accuracy", f"clutrr/{dataset}/{TUNING}/*", most, table(head, rows), plot)


def _links(results: Results) -> str:
    rows, most = [], 0
    systems = dict.fromkeys(system for published in LINKS.values() for system in (OURS, RANKED, *published))
    for system in systems:
        runs = {dataset: results.get("links", dataset, "", system) for dataset in LINKS}
        if any(runs.values()):
            every = [run for those in runs.values() for run in those]
            cells = [
                _cell([_figure(run) for run in those], LINKS[dataset].get(system, (None,))[0], 3)
                for dataset, those in runs.items()
            ]
            rows.append([(NAMES | LINK_NAMES)[system], *cells, _commits(every)])
            most = max(most, *map(len, runs.values()))
    head = ["", *(name.replace("countries-s", "Countries S") for name in LINKS), "commits"]
    title = "Link prediction: MRR, or AUC-PR of Countries"
    return _section(title, "links/*", most, table(head, rows))


def _figure(run: Row) -> float:
    metrics = run["metrics"]
    return float(metrics["auc_pr"] if "auc_pr" in metrics else metrics["mrr"])


def _dynamics(results: Results) -> str:
    rows = []
    for system in DYNAMIC:
        runs = results.get("dynamics", dynamics.DATASET, "", system)
        if runs:
            curve = first_points(runs[0]["curve"])
            least, _, most = (text.removesuffix(" iterations") for text in reached(curve, runs[0]["ceiling"]))
            rows.append([NAMES[system], least, most, f"{100 * curve[-1][1]:.1f}", _commits(runs)])
    head = ["iterations to", "95 %", "99 %", f"% after {dynamics.ITERATIONS}", "commits"]
    title = f"Training accuracy on {dynamics.DATASET}, one seed"
    plot = "![Training accuracy over iterations](paper-dynamics.svg)"
    return _section(title, "dynamics/*", 1, table(head, rows), plot) if rows else ""


def _section(title: str, cells: str, seeds: int, figures: str, plot: str = "") -> str:
    if not seeds:
        return ""
    return "\n\n".join(
        part for part in (f"## {title}\n{COMMAND.format(seeds=seeds, cells=cells)}", figures, plot) if part
    )


def _cell(values: Sequence[float], published: Published | None, digits: int) -> str:
    """`.95/.98`: ours, and the paper's where it has one."""
    own = short(mean(values), digits) if values else ""
    return f"{own}/{short(published.mean, digits)}" if published else own


def _commits(runs: Iterable[Row]) -> str:
    """The commits on which the rows were measured; a star marks changes that were not committed then."""
    codes = {str(run.get("code", "")).partition("+")[2] for run in runs} - {""}
    starred = {code.removesuffix("-dirty"): "" for code in sorted(codes)} | {
        code.removesuffix("-dirty"): "*" for code in codes if code.endswith("-dirty")
    }
    return ",".join(f"`{commit}`{star}" for commit, star in starred.items())
