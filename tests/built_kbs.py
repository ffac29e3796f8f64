"""KBs as a service stores them, of a few facts."""

from collections.abc import Iterable

from ctp_core.kb.facts_builder import BuiltKB, FactsBuilder, KbLimits

Facts = Iterable[tuple[str, str, str]]


def built(facts: Facts, **others: Facts) -> BuiltKB:
    """A KB with these training facts; `others` are its other splits."""
    builder = FactsBuilder(KbLimits())
    for split, some in {"train": facts, **others}.items():
        builder.add(split, ((number, *fact) for number, fact in enumerate(some, 1)), "facts.tsv")
    return builder.build()
