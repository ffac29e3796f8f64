"""The table of what was tried before a model was trained."""

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from ctp_client import Trial
from service.commands.console import name, out, short, table


def print_trials(trials: Sequence[Trial]) -> None:
    """Prints the trials in the order in which they were made; the chosen settings are bold."""
    settings = list(dict.fromkeys(setting for trial in trials for setting in trial.settings))
    columns = ("tried", *settings, trials[0].metric, "CPU s", "")
    out.print(table(columns, [_row(number, trial, settings) for number, trial in enumerate(trials, 1)], columns[:-1]))


def _row(number: int, trial: Trial, settings: Sequence[str]) -> tuple[Text, ...]:
    style = "bold" if trial.chosen else ""
    values: list[Any] = [trial.settings.get(setting, "") for setting in settings]
    cells = [str(number), *map(short, values), f"{trial.value:.3f}", f"{trial.cpu_seconds:.1f}"]
    return *(name(cell, style) for cell in cells), Text("chosen" if trial.chosen else "", "green")
