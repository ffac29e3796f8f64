"""Facts that a model cannot use, because it has never seen their predicates: ignored, with a warning in the answer."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ctp_core.base.model import Question
from ctp_core.errors import UnknownSymbol
from ctp_core.symbols import Fact, Vocabulary

MAX_WARNINGS = 5  # predicates with a warning of their own: looking for the nearest names takes time


def usable(facts: Iterable[Fact], predicates: Vocabulary) -> tuple[Fact, ...]:
    """The facts whose predicates the model knows, in their order."""
    return tuple(fact for fact in facts if fact.predicate in predicates)


def ignore_unknown(question: Question, predicates: Vocabulary) -> tuple[Question, tuple[str, ...]]:
    """The question without the facts that the model cannot use, and a warning for each predicate that it ignores.

    Raises UnknownSymbol where the question has facts, but none that can be used.
    """
    kept, warnings = usable_facts(question.facts, predicates)
    return (replace(question, facts=kept), warnings) if warnings else (question, ())


def usable_facts(facts: Sequence[Fact], predicates: Vocabulary) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    """The facts that the model can use, and a warning for each predicate that it ignores; raises UnknownSymbol."""
    kept = usable(facts, predicates)
    if len(kept) == len(facts):
        return kept, ()
    ignored = Counter(fact.predicate for fact in facts if fact.predicate not in predicates)
    if not kept:
        raise UnknownSymbol(
            "predicate", next(iter(ignored)), predicates, "to this model, and no fact of the question has a known one"
        )
    return kept, _warnings(ignored, predicates)


def _warnings(ignored: Counter[str], predicates: Vocabulary) -> tuple[str, ...]:
    named = list(ignored)[:MAX_WARNINGS]
    found = [f"{UnknownSymbol('predicate', name, predicates)}: {_ignored(ignored[name])}" for name in named]
    if others := len(ignored) - len(named):
        number = sum(ignored.values()) - sum(ignored[name] for name in named)
        found.append(f"{others} more predicates are unknown to this model: {_ignored(number)}")
    return tuple(found)


def _ignored(number: int) -> str:
    return f"{number:,} facts of the question were ignored" if number > 1 else "1 fact of the question was ignored"
