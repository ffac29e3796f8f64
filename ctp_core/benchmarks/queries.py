"""`ctp bench queries`: asks questions whose answers need a withheld fact, by shape, and ranks these answers."""

import time
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

import numpy as np

from ctp_core.base.edges import EdgeList
from ctp_core.base.facts_model import FactsModel
from ctp_core.base.model import Budget
from ctp_core.base.trainer import OnStep, ignore
from ctp_core.benchmarks.links import LinksRun, train
from ctp_core.benchmarks.query_shapes import ANSWER, SHAPES, Drawn, answers, draw, written
from ctp_core.kb.knowledge_base import SPLITS, FactsKB
from ctp_core.logic.answers import answer
from ctp_core.logic.question import LogicalQuestion

MOST_ANSWERS = 100  # of a question; one with more says little
TRIES = 200  # for each question that is wanted
ASKED_TOP_K = 10  # of a question whose time is measured


@dataclass(frozen=True)
class QueriesRun:
    """Questions about the facts of `links.split`, which the model was not trained on."""

    links: LinksRun
    num_questions: int = 100
    tnorm: str = "product"
    width: int = 1000
    seconds: float = 30.0  # for each question
    listed: int = 1000  # entities that a question lists: those behind share the mean of the ranks that are left


@dataclass(frozen=True)
class Question:
    """A drawn question with the answers to rank, and all true ones, which are left out of the ranking."""

    drawn: Drawn
    hard: frozenset[int]
    true: frozenset[int]


def run(queries: QueriesRun, on_epoch: OnStep = ignore) -> dict[str, Any]:
    """MRR, Hits@10 and time of each shape, averaged over the answers of a question and then over questions."""
    links = queries.links
    kb = links.kb(0)
    model, spent = train(links, kb, 0, on_epoch)
    choose = np.random.default_rng(0)
    rows: dict[str, dict[str, Any]] = {}
    for shape in SHAPES:
        questions = draw_questions(kb, links.ranked, shape, queries.num_questions, choose)
        rows[shape] = _measured(model, kb, queries, questions)
    measured = [row["mrr"] for row in rows.values() if row["num_questions"]]
    return {
        "dataset": links.dataset,
        "model": links.model,
        "preset": links.preset,
        "split": links.split,
        "tnorm": queries.tnorm,
        "width": queries.width,
        "mrr": fmean(measured) if measured else None,
        "shapes": rows,
        "train_cpu_seconds": spent,
        "config": links.config(kb, 0).model_dump(),
    }


def draw_questions(kb: FactsKB, split: str, shape: str, wanted: int, choose: np.random.Generator) -> list[Question]:
    """Distinct questions with an answer that the training facts do not give; fewer where the KB has few."""
    sizes = (len(kb.entities), len(kb.predicates))
    known = [kb.splits[name] for name in SPLITS[: SPLITS.index(split) + 1] if name in kb.splits]
    whole, train_facts = EdgeList(np.concatenate(known), *sizes), EdgeList(kb.splits["train"], *sizes)
    targets = np.unique(kb.splits[split][:, 2])
    found: dict[Drawn, Question] = {}
    for _ in range(TRIES * wanted):
        drawn = draw(SHAPES[shape], int(choose.choice(targets)), whole, choose)
        if drawn is None or drawn in found:
            continue
        true = answers(drawn, whole)
        hard = true - answers(drawn, train_facts)
        if hard and len(true) <= MOST_ANSWERS:
            found[drawn] = Question(drawn, hard, true)
        if len(found) == wanted:
            break
    return list(found.values())


def _measured(model: FactsModel, kb: FactsKB, queries: QueriesRun, questions: list[Question]) -> dict[str, Any]:
    reciprocal, hits, seconds, cut = [], [], [], 0
    for question in questions:
        ranks, truncated = ranks_of(model, kb, queries, question)
        reciprocal.append(float((1 / ranks).mean()))
        hits.append(float((ranks <= 10).mean()))
        seconds.append(_seconds(model, kb, queries, question))
        cut += truncated
    row: dict[str, Any] = {"num_questions": len(questions), "truncated": cut}
    if questions:
        row |= {"mrr": fmean(reciprocal), "hits@10": fmean(hits), "p50_ms": 1000 * median(seconds)}
    return row


def _question(kb: FactsKB, queries: QueriesRun, drawn: Drawn, top_k: int) -> LogicalQuestion:
    return LogicalQuestion(written(drawn, kb), (ANSWER,), tnorm=queries.tnorm, top_k=top_k, proofs=0)


def ranks_of(model: FactsModel, kb: FactsKB, queries: QueriesRun, question: Question) -> tuple[np.ndarray, bool]:
    """The filtered rank of each hard answer; ties count half. What is not listed shares the ranks that are left."""
    top_k = min(queries.listed, len(kb.entities))
    asked = _question(kb, queries, question.drawn, top_k)
    found = answer(model, asked, Budget(queries.seconds), queries.width)
    listed = {kb.entities.id(one.bindings[str(ANSWER)]): one.score for one in found.items}
    others = np.array([score for entity, score in listed.items() if entity not in question.true])
    left = len(kb.entities) - len(listed) - sum(entity not in listed for entity in question.true)
    ranks = []
    for entity in sorted(question.hard):
        if entity in listed:
            score = listed[entity]
            ranks.append(1 + (others > score).sum() + (others == score).sum() / 2)
        else:
            ranks.append(1 + len(others) + max(0, left) / 2)
    return np.array(ranks, dtype=np.float64), found.truncated


def _seconds(model: FactsModel, kb: FactsKB, queries: QueriesRun, question: Question) -> float:
    """Wall time of the question as people ask it: the best answers, without proofs, by a model in memory."""
    started = time.perf_counter()
    answer(model, _question(kb, queries, question.drawn, ASKED_TOP_K), Budget(queries.seconds), queries.width)
    return time.perf_counter() - started
