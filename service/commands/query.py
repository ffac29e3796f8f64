"""`ctp query`: asks a model and shows the answers with their proofs."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from ctp_client import Answers, ApiError, ClientError, Node, Unification
from service.commands.console import Json, Key, Url, connected, name, out, print_json, printable, strength, table

GOAL = re.compile(r"\s*(?P<predicate>[^(]+?)\s*\(\s*(?P<subject>.+?)\s*,\s*(?P<object>.+?)\s*\)\s*\.?\s*")
OPEN = {"?", "_"}
VARIABLE = re.compile(r"[A-Z]\w?|_\w+")
# Models give such scores to almost anything: shown only with --all, or if nothing is better.
WEAK = 0.1
EVIDENCE = "evidence"  # `scoring` of models that add up evidence, in which no fact proves itself


def query(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="id, name, name@3 or name@champion.")],
    goal: Annotated[str | None, typer.Argument(help="e.g. 'grandparent(?, morty)'; ? is the place asked for.")] = None,
    subject: Annotated[
        str | None, typer.Option("--subject", "-s", help="Instead of GOAL, for names with commas or parentheses.")
    ] = None,
    predicate: Annotated[str | None, typer.Option("--predicate", "-p")] = None,
    object: Annotated[str | None, typer.Option("--object", "-o")] = None,
    facts: Annotated[
        list[str] | None,
        typer.Option("--fact", help="Extra fact for this question only, e.g. 'parent(rick, beth)'; may be repeated."),
    ] = None,
    kb: Annotated[
        str | None, typer.Option("--kb", help="KB to apply the model to; default: the one it was trained on.")
    ] = None,
    depth: Annotated[
        int | None,
        typer.Option("--depth", min=0, help="Maximum depth of the search, for method ctp; default: as trained."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="Maximum number of answers.")] = 10,
    proofs: Annotated[int, typer.Option("--proofs", min=0, help="Maximum number of proofs of the first answer.")] = 1,
    new: Annotated[bool, typer.Option("--new", help="Leave out answers that are facts of the KB.")] = False,
    every: Annotated[bool, typer.Option("--all", help=f"Show answers with a score below {WEAK} as well.")] = False,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Ask a model; the first answer is shown with its proofs."""
    asked = parse_goal(goal) if goal else (subject, predicate, object)
    extra = [tuple_of(fact) for fact in facts or []]
    with connected(url, key) as client, hinting(asked):
        found = client.query(
            model, *asked, facts=extra, top_k=top, proofs=proofs, kb=kb, depth=depth, exclude_known=new
        )
    if as_json:
        print_json(found)
    else:
        print_answers(found, every)


@contextmanager
def hinting(asked: Iterable[str | None]) -> Iterator[None]:
    """Adds a hint to the error if the goal has a Prolog variable instead of `?`."""
    try:
        yield
    except ApiError as error:
        variables = [name for name in asked if name is not None and VARIABLE.fullmatch(name)]
        if error.code == "unknown_symbol" and variables:
            raise ClientError(f"{error.detail}: write ? instead of {variables[0]} for the place asked for") from None
        raise


def parse_goal(text: str) -> tuple[str | None, str | None, str | None]:
    """Parses `predicate(subject, object)` to (subject, predicate, object), None for `?`; raises BadParameter."""
    match = GOAL.fullmatch(text)
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is not of the form predicate(subject, object), with ? for the place asked for"
        )
    subject, predicate, object = (
        None if match[place] in OPEN else match[place] for place in ("subject", "predicate", "object")
    )
    return subject, predicate, object


def tuple_of(text: str) -> tuple[str, str, str]:
    subject, predicate, object = parse_goal(text)
    if subject is None or predicate is None or object is None:
        raise typer.BadParameter(f"the fact {text!r} has an open place: name all three")
    return subject, predicate, object


def print_answers(found: Answers, every: bool = False) -> None:
    """Prints the answers, after what of the question was ignored; weak ones only if `every`, except the first one and
    known facts.
    """
    for warning in found.warnings:
        out.print(name(f"! {warning}", "yellow"))
    if not found.answers:
        out.print("no answer", style="dim")
        return
    shown = [a for a in found.answers if every or a.rank == 1 or a.known or a.score >= WEAK]
    apart = any(a.probability is not None and a.probability != a.score for a in shown)  # of models that do not add up
    rows = [
        (
            str(a.rank),
            strength(a.score),
            *([strength(a.probability)] if apart and a.probability is not None else []),
            name(str(a), "bold" if a.rank == 1 else ""),
            "known" if a.known else "",
        )
        for a in shown
    ]
    numbers = ("", "score", "probability")[: 3 if apart else 2]
    out.print(table((*numbers, "answer", ""), rows, numbers))
    if len(shown) < len(found.answers):
        out.print(f"and {len(found.answers) - len(shown)} more below {WEAK}: --all shows them", style="dim")
    if any(a.known for a in shown) and found.scoring == EVIDENCE:
        out.print("known: the KB states it; its score says how well the other facts support it", style="dim")
    elif found.answers[0].score < WEAK:
        out.print(f"no answer reaches {WEAK}: their order says more than their scores", style="dim")
    if not found.explainable:
        out.print("this model answers without proofs", style="dim")
    for proof in found.answers[0].proofs:
        out.print()
        out.print(proof_tree(proof.tree))
    if found.truncated:
        out.print("the answer was cut short: there may be more answers or proofs", style="yellow")


def proof_tree(root: Node) -> Tree:
    """Draws a proof as a tree and marks its weakest link."""
    links = [(link.score, id(link)) for node in root.nodes() for link in node.unifications]
    score, weakest = min(links, default=(1.0, 0))
    return _branch(root, [], weakest if f"{score:.3f}" != "1.000" else 0)


def _branch(node: Node, leading: list[Unification], weakest: int) -> Tree:
    """Draws a goal with the links to it, below it its rule, and below that the goals of the rule's body."""
    own = node.unifications if node.rule is None else []
    title = Text.assemble((printable(str(node.goal)), "bold"), "  ", strength(node.score))
    tree = Tree(_with_links(title.append("  fact" if node.by == "fact" else "", "dim"), leading + own, weakest))
    if node.rule is None:
        return tree
    # Links follow the body's atoms, after one for the head if there is one; or there is only one, for the head.
    links, children = len(node.unifications), len(node.children)
    body = links if links < children else links - children
    rule = _with_links(Text(f"by {printable(node.rule['text'])}", "italic"), node.unifications[:body], weakest)
    by = tree.add(rule, guide_style="dim")
    for position, child in enumerate(node.children):
        by.children.append(_branch(child, node.unifications[body + position : body + position + 1], weakest))
    return tree


def _with_links(title: Text, links: list[Unification], weakest: int) -> Text:
    for link in links:
        if link.score < 1 or link.left != link.right:
            names = f"{printable(link.left)} {'≈' if link.approximate else '~'} {printable(link.right)}"
            title = Text.assemble(title, "  ", (names, "dim"), " ", strength(link.score))
            title.append(" ← weakest link" if id(link) == weakest else "", "yellow")
    return title
