"""A comparison of model versions as tables."""

from typing import Any

from rich.text import Text

from service.commands.console import name, out, table

SHOWN = 20  # disagreements that the service lists at most


def print_comparison(found: dict[str, Any]) -> None:
    titles = [f"{model['name']}@{model['version']}" for model in found["models"]]
    _values("setting", found["config"], titles)
    _values("on validation", found["metrics"], titles)
    rules = [str(count) for count in found["num_rules"]]
    out.print(table(("rules", *titles), [(f"{found['num_shared_rules']} shared", *rules)], titles))
    if found["evaluation"] is None:
        out.print(name(f"not asked the same questions: {found['note']}", "dim"))
        return
    _scores(found["evaluation"], titles)
    _disagreements(found["evaluation"]["disagreements"], titles)


def _values(title: str, rows: list[dict[str, Any]], titles: list[str]) -> None:
    if rows:
        shown = [(row["name"], *(name(_short(value)) for value in row["values"])) for row in rows]
        out.print(table((title, *titles), shown), "")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "–" if value is None else str(value)


def _scores(evaluation: dict[str, Any], titles: list[str]) -> None:
    """Shares of right answers; a star where a version differs from the first one with p < 0.01, two with p < 0.0001."""
    rows: list[tuple[str | Text, ...]] = []
    for group in evaluation["groups"]:
        cells = [f"{100 * right:.1f} %{_stars(p)}" for right, p in zip(group["right"], group["p_values"], strict=True)]
        rows.append((name(group["name"]), str(group["num_questions"]), *cells))
    out.print("", table((f"right, {evaluation['split']}", "questions", *titles), rows, ("questions", *titles)))
    if evaluation["num_left_out"]:
        out.print(name(f"{evaluation['num_left_out']} questions have too many other true answers to be asked", "dim"))
    out.print(name(f"* p < 0.01, ** p < 0.0001 against {titles[0]}, McNemar's exact test", "dim"))


def _stars(p: float | None) -> str:
    return "" if p is None or p >= 0.01 else "**" if p < 0.0001 else "*"


def _disagreements(rows: list[dict[str, Any]], titles: list[str]) -> None:
    if rows:
        out.print(
            "",
            name(f"questions where they differ ({len(rows)}{' at least' if len(rows) >= SHOWN else ''})", "bold dim"),
        )
    for row in rows:
        out.print("", name(f"{row['expected']}  ({row['group']})", "bold"))
        for title, given in zip(titles, row["answers"], strict=True):
            answer = "no answer" if given["answer"] is None else f"{given['answer']} {given['score']:.3f}"
            word, colour = ("right", "green") if given["right"] else ("wrong", "red")
            out.print(name(f"  {title}: {answer} ({word})", colour))
            if given["proof"]:
                out.print(name(f"    {given['proof']}", "dim"))
