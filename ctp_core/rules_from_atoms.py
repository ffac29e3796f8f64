"""Rules read from their atoms, in any order and with any names of variables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ctp_core.errors import DataError
from ctp_core.rules import About, Atom, Body, Rule, Step, is_constant, rule_text, unquoted


def rule_from_atoms(head: Atom, body: Sequence[Atom], confidence: float) -> Rule:
    """The rule that these atoms state; raises DataError where the body is not a path."""
    path, constant = _read(head, body)
    return Rule(head.predicate, path, confidence, constant)


def rule_from_values(values: Mapping[str, Any]) -> Rule:
    """A rule as any version stored it; raises DataError, or KeyError or TypeError where a part is missing."""
    head, *body = (Atom(**atom) for atom in (values["head"], *values["body"]))
    rule = rule_from_atoms(head, body, values["confidence"])
    support, precision, weight = (values.get(name) for name in ("support", "precision", "weight"))
    approximate = bool(values.get("approximate"))
    return replace(rule, support=support, precision=precision, weight=weight, approximate=approximate)


def _read(head: Atom, atoms: Sequence[Atom]) -> tuple[Body, str | None]:
    """The body that these atoms are, and the constant in the head."""
    arguments = (head.subject, head.object)
    constants = [unquoted(argument) for argument in arguments if is_constant(argument)]
    about = _about(arguments, atoms)
    path = _walk(atoms, head.object if about == "Y" else head.subject)
    apart = len(set(arguments)) == 2 and len(constants) < 2
    if not about:
        fits = path is not None and path[1] == head.object
    elif constants:
        fits = path is not None
    else:  # what is said of one entity alone has one atom, and leads to anything
        fits = path is not None and len(path[0]) == 1 and not is_constant(path[1])
    if path is None or not apart or not fits:
        raise DataError(
            f"rule {rule_text(head, atoms)!r}: the body must be a path between the two variables of the head"
        )
    steps, end = path
    return Body(steps, about, unquoted(end) if is_constant(end) else None), constants[0] if constants else None


def _about(arguments: tuple[str, str], atoms: Iterable[Atom]) -> About:
    """The one place of the head whose variable the body mentions; "" where it mentions both or neither."""
    spoken_of = {argument for atom in atoms for argument in (atom.subject, atom.object)}
    subject, object_ = (argument in spoken_of and not is_constant(argument) for argument in arguments)
    return "" if subject == object_ else "X" if subject else "Y"


def _walk(atoms: Iterable[Atom], start: str) -> tuple[tuple[Step, ...], str] | None:
    """The steps from `start` along all atoms and where they end; None where the atoms are not one path."""
    left, passed, steps = list(atoms), [start], []
    while left:
        at = passed[-1]
        onward = [atom for atom in left if at in (atom.subject, atom.object)]
        if len(onward) != 1 or is_constant(at):
            return None
        [atom] = onward
        left.remove(atom)
        inverse = atom.object == at
        steps.append(Step(atom.predicate, inverse))
        passed.append(atom.subject if inverse else atom.object)
    return (tuple(steps), passed[-1]) if len(set(passed)) == len(passed) else None
