"""Prints a comparison of model versions as tables, with a verdict in words."""

from string import ascii_uppercase
from typing import Any

from rich.padding import Padding
from rich.text import Text

from service.commands.console import name, out, short, table

BESIDE = 26  # columns that a table needs besides those of the versions
SURE = 0.01  # p-value below which a difference counts as real


def print_comparison(found: dict[str, Any]) -> None:
    """Prints the comparison; what matters most comes last, at the bottom of the terminal."""
    versions = [f"{model['name']}@{model['version']}" for model in found["models"]]
    titles = _titles(versions)
    if titles != versions:
        out.print(
            table(
                ("", "model"), [(title, name(version, "bold")) for title, version in zip(titles, versions, strict=True)]
            ),
            "",
        )
    _settings(found, titles, versions)
    _values("on validation", found["metrics"], titles)
    rules = [str(count) for count in found["num_rules"]]
    out.print(table(("rules", *titles), [(f"{found['num_shared_rules']} shared", *rules)], titles), "")
    contest = found["contest"]
    if contest is None:
        out.print(name(f"not asked the same questions: {found['note']}", "dim"))
        return
    if contest["truncated"]:
        out.print(name(f"the comparison was cut short: {found['note']}", "dim"))
    _disagreements(contest, versions)
    _scores(contest, titles)
    _verdict(contest, versions)


def _titles(versions: list[str]) -> list[str]:
    """Returns the versions, or a letter for each if their names do not fit side by side."""
    fit = sum(len(version) + 2 for version in versions) <= out.width - BESIDE
    return versions if fit else list(ascii_uppercase[: len(versions)])


def _settings(found: dict[str, Any], titles: list[str], versions: list[str]) -> None:
    """Prints the settings that several versions have as a table, and those of one version below it."""
    own: list[list[str]] = [[] for _ in versions]
    shared = []
    for row in found["config"]:
        part = row["name"].split(".")[0]
        places = [place for place, model in enumerate(found["models"]) if part in model["config"]]
        if len(places) == 1:
            own[places[0]].append(f"{row['name']} {short(row['values'][places[0]])}")
        else:
            shared.append(row)
    _values("setting", shared, titles)
    for version, settings in zip(versions, own, strict=True):
        if settings:
            out.print(name(f"{version} alone has {', '.join(settings)}", "dim"))
            out.print()


def _values(title: str, rows: list[dict[str, Any]], titles: list[str]) -> None:
    if rows:
        shown = [(row["name"], *(name(short(value)) for value in row["values"])) for row in rows]
        out.print(table((title, *titles), shown), "")


def _scores(contest: dict[str, Any], titles: list[str]) -> None:
    """Prints the shares of right answers; `*` marks a difference from the first version, p < 0.01, `**` p < 0.0001."""
    rows: list[tuple[str | Text, ...]] = []
    for group in contest["groups"]:
        cells = [f"{100 * right:.1f} %{_stars(p)}" for right, p in zip(group["right"], group["p_values"], strict=True)]
        rows.append((name(group["name"]), str(group["num_questions"]), *cells))
    out.print(table((f"right, {contest['split']}", "questions", *titles), rows, ("questions", *titles)))
    out.print(name(f"* p < {SURE}, ** p < 0.0001 against {titles[0]}, McNemar's exact test", "dim"))
    if contest["num_left_out"]:
        out.print(name(f"{contest['num_left_out']} questions have too many other true answers to be asked", "dim"))


def _stars(p: float | None) -> str:
    return "" if p is None or p >= SURE else "**" if p < 0.0001 else "*"


def _verdict(contest: dict[str, Any], versions: list[str]) -> None:
    """Prints each version against the first, and whether their difference may be chance."""
    everything = contest["groups"][0]
    asked, available = everything["num_questions"], contest["num_available"]
    first, *others = [round(share * asked) for share in everything["right"]]
    out.print()
    for version, right, p in zip(versions[1:], others, everything["p_values"][1:], strict=True):
        more = f"{abs(right - first)} {'more' if right > first else 'fewer'} than {versions[0]}"
        chance = f"{'hardly' if p < SURE else 'may be'} chance (p = {p:.2g})"
        said = f"as many as {versions[0]}" if right == first else f"{more}: {chance}"
        out.print(name(f"{version}: {right} of {asked} right, {said}", "bold"))
    if asked < available:
        out.print(name(f"the {contest['split']} split has {available} questions: --questions asks more", "dim"))


def _disagreements(contest: dict[str, Any], versions: list[str]) -> None:
    rows, number = contest["disagreements"], contest["num_disagreements"]
    rest = f", {len(rows)} of them here: --disagreements shows more" if len(rows) < number else ""
    out.print(name(f"questions where they differ: {number}{rest}", "bold dim"))
    for row in rows:
        out.print()
        out.print(Text.assemble(name(_question(**row["goal"]), "bold"), name(f"  right: {row['expected']}", "dim")))
        if row["facts"]:
            given = ", ".join(f"{predicate}({subject}, {object})" for subject, predicate, object in row["facts"])
            out.print(_indented(f"given {given}", 2, "dim"))
        for version, answer in zip(versions, row["answers"], strict=True):
            _answer(version, answer)
    out.print()


def _question(subject: str | None, predicate: str | None, object: str | None) -> str:
    """Returns the question in the form that `ctp query` takes."""
    return f"{predicate or '?'}({subject or '?'}, {object or '?'})"


def _answer(version: str, given: dict[str, Any]) -> None:
    answer = "no answer" if given["answer"] is None else f"{given['answer']} {given['score']:.3f}"
    word, colour = ("right", "green") if given["right"] else ("wrong", "red")
    out.print(_indented(f"{version}: {answer} ({word})", 2, colour))
    if given["proof"]:
        out.print(_indented(given["proof"], 4, "dim"))


def _indented(text: str, columns: int, style: str) -> Padding:
    """Indents a text, including its continuation lines."""
    return Padding(name(text, style), (0, 0, 0, columns), expand=False)
