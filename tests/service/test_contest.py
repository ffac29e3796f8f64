"""Which questions versions are compared by, and the test between them."""

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from ctp_core.kb.knowledge_base import FactsKB, Graph, GraphsKB
from ctp_core.symbols import Fact, Vocabulary
from service.app import create_app
from service.db.engine import Database
from service.db.migrate import migrate
from service.errors import Invalid, Unavailable
from service.http.places import Places
from service.models import comparison, contest
from service.models.comparison import comparing, prepare
from service.models.contest import (
    MAX_CANDIDATES,
    Asking,
    ContestQuestion,
    NotAnswered,
    Outcome,
    Prepared,
    _answers_to,
    _differing,
    _fact_questions,
    _graph_questions,
    choose,
    hold,
    sign_test,
)
from service.queries.batcher import MAX_BATCH, UNDER_WAY, Asked, Batcher, Target
from service.queries.wire import Reply
from service.settings import Settings
from tests.stores import files_of

TARGET = Target("default", "model_1", "models/1/x")
QUESTION = ContestQuestion("p", ("a", "p", None), (), Fact("a", "p", "b"))


@pytest.fixture
def threads() -> Iterator[Places]:
    made = comparing(1)
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (8, 1, 0.0390625), (3, 3, 1.0)]
)
def test_mcnemar_by_hand(only_first: int, only_second: int, p: float) -> None:
    pairs = [(True, False)] * only_first + [(False, True)] * only_second + [(True, True)] * 3
    assert sign_test(pairs) == pytest.approx(p)


def test_other_true_answers_are_passed_over() -> None:
    facts = {"train": [Fact("a", "p", "b"), Fact("a", "q", "b")], "test": [Fact("a", "p", "c")]}
    question, _ = _fact_questions(FactsKB.from_facts(facts), "test")
    assert question == ContestQuestion("p", ("a", "p", None), (), Fact("a", "p", "c"), frozenset({Fact("a", "p", "b")}))
    assert question.body(0)["top_k"] == 2
    said = [{"subject": "a", "predicate": "p", "object": name} for name in "bc"]
    answers = b'"truncated":false,"answers":%b' % json.dumps(said).encode()
    first = question.outcome(answers).first
    assert first is not None
    assert first["object"] == "c"
    assert question.outcome({"code": "unknown_symbol", "status": 422}) == Outcome(None)


def test_a_proof_is_asked_for_one_answer_and_not_for_all_that_it_was_found_among() -> None:
    many = replace(QUESTION, also_right=frozenset(Fact("a", "p", f"x{number}") for number in range(50)))
    asked = many.about({"subject": "a", "predicate": "p", "object": "y"}).body(1)
    assert (many.body(0)["top_k"], asked["top_k"], asked["goal"]) == (51, 1, ["a", "p", "y"])


def test_every_test_fact_is_asked_for_from_both_ends_however_few_are_asked() -> None:
    facts = {"train": [Fact("z", "p", "c")], "test": [Fact("a", "p", "c"), Fact("b", "p", "d")]}
    questions = _fact_questions(FactsKB.from_facts(facts), "test")
    assert [question.goal for question in questions] == [
        ("a", "p", None),
        ("b", "p", None),
        (None, "p", "c"),
        (None, "p", "d"),
    ]
    assert questions[2].also_right == {Fact("z", "p", "c")}
    assert [question.goal for question in choose("test", questions, 2).questions] == [
        ("a", "p", None),
        (None, "p", "c"),
    ]


@pytest.mark.parametrize("status", [409, 500, 503])
def test_a_model_that_fails_is_not_a_model_that_errs(status: int) -> None:
    with pytest.raises(NotAnswered, match="the files are away"):
        QUESTION.outcome({"code": "storage_away", "status": status, "detail": "the files are away"})


def test_a_question_whose_answer_cannot_be_reached_is_left_out_and_told() -> None:
    facts = [Fact("a", "p", f"x{number}") for number in range(MAX_CANDIDATES + 1)]
    questions = _fact_questions(
        FactsKB.from_facts({"train": facts[2:], "test": [*facts[:2], Fact("b", "p", "c")]}), "test"
    )
    contest = choose("test", questions, 10)
    assert [question.goal for question in contest.questions if question.goal[0] is not None] == [("b", "p", None)]
    assert contest.num_left_out == 2


def test_without_a_question_there_is_a_note() -> None:
    graph = Graph((Fact("a", "p", "b"),), "a", "b", None)
    kb = GraphsKB(Vocabulary("predicate", ("p",)), (), {"train": (graph,), "test": (graph,)})
    contest = choose("test", _graph_questions(kb, "test"), 10)
    assert contest.note == "their test split has no question that can be asked fairly"


def test_differences_that_decide_who_is_better_come_first() -> None:
    def said(entity: str) -> dict[str, str]:
        return {"subject": "a", "predicate": "p", "object": entity}

    first, second = [said("x"), said("b"), said("b")], [said("y"), said("b"), None]
    assert _differing((QUESTION,) * 3, [first, second]) == [2, 0]


def test_models_times_questions_is_bounded(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    with pytest.raises(Invalid, match="at most 200 `questions` may be asked of 10 models") as refused:
        prepare(database, files_of(database), "t", [f"m{number}" for number in range(10)], 201)
    assert refused.value.code == "too_many_questions"


class OneInTime(Batcher):
    """Its worker has time for the first question of a batch only."""

    async def _send(self, target: Target, batch: list[Asked]) -> list[Reply]:
        answered = b'"truncated":false,"answers":[{"subject":"a","predicate":"p","object":"b","proofs":[]}]'
        late = b'"truncated":true,"answers":[]'
        return [answered, *[late] * (len(batch) - 1)]


def test_a_question_that_others_left_no_time_for_is_asked_again_alone(threads: Places, tmp_path: Path) -> None:
    batcher = OneInTime(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    outcome, note = asyncio.run(hold(Prepared("test", (QUESTION,) * 5), [TARGET] * 2, Asking(batcher, threads, ""), 20))
    assert outcome is not None
    assert note is None
    assert outcome.groups[0].right == [1.0, 1.0]


def test_only_what_answers_a_question_of_the_split_is_named() -> None:
    train = [Fact(f"s{number}", "p", f"o{number}") for number in range(100)]
    kb = FactsKB.from_facts({"train": train, "test": [Fact("s1", "p", "o2")]})
    assert _answers_to(kb, "test") == [train[1], train[2], Fact("s1", "p", "o2")]


def test_questions_are_asked_batch_by_batch_and_not_for_ever(threads: Places, tmp_path: Path) -> None:
    """Nobody takes these questions: what waits is looked at from the side, until the time is up."""
    settings = Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1", compare_seconds=0.5)

    async def look() -> tuple[Any, int, int]:
        batcher = Batcher(settings)
        batcher.lanes[TARGET].senders = UNDER_WAY  # its lane is busy
        holding = asyncio.ensure_future(
            hold(Prepared("test", (QUESTION,) * 1000), [TARGET] * 2, Asking(batcher, threads, ""), 20)
        )
        while not (waiting := batcher.waiting.total()):
            await asyncio.sleep(0)
        outcome = await holding
        return outcome, waiting, batcher.waiting.total()

    outcome, waiting, left = asyncio.run(look())
    assert outcome[0] is None
    assert "CTP_COMPARE_SECONDS" in outcome[1]
    assert (waiting, left) == (MAX_BATCH, 0)


class Answers(Batcher):
    """Its worker answers with the name of the model."""

    async def _send(self, target: Target, batch: list[Asked]) -> list[Reply]:
        answer = '"truncated":false,"answers":[{"subject":"a","predicate":"p","object":"%s","score":1,"proofs":[]}]'
        return [(answer % target.model_id).encode()] * len(batch)


class OutOfTime(Answers):
    """The time is up when it is asked for the fifth time: independent of the clock."""

    num_asked = 0

    async def ask(self, target: Target, questions: Sequence[dict[str, Any]], request_id: str) -> list[Reply]:
        self.num_asked += 1
        if self.num_asked == 5:
            raise TimeoutError
        return await super().ask(target, questions, request_id)


def test_a_comparison_that_runs_out_of_time_tells_what_it_has(threads: Places, tmp_path: Path) -> None:
    batcher = OutOfTime(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    questions = tuple(replace(QUESTION, group=f"group {number // 100}") for number in range(1000))
    models = [Target("default", "b", "models/1/x"), Target("default", "c", "models/2/x")]
    outcome, note = asyncio.run(hold(Prepared("test", questions, 1000), models, Asking(batcher, threads, ""), 3))
    assert outcome is not None
    assert outcome.truncated
    assert note is not None
    assert "CTP_COMPARE_SECONDS" in note
    assert outcome.num_questions == 2 * MAX_BATCH
    assert outcome.groups[0].right == [1.0, 0.0]
    assert len(outcome.groups) == 11, "every group has its share of the questions"
    assert len(outcome.disagreements) == 3


def test_replies_are_read_once_and_beside_the_other_calls(
    threads: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of them may have megabytes."""
    readers: list[str] = []
    parsed = contest._parsed

    def noting(reply: bytes) -> dict[str, Any]:
        readers.append(threading.current_thread().name)
        return parsed(reply)

    monkeypatch.setattr(contest, "_parsed", noting)
    batcher = Answers(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    asyncio.run(hold(Prepared("test", (QUESTION,) * 5), [TARGET] * 2, Asking(batcher, threads, ""), 0))
    assert len(readers) == 10
    assert threading.main_thread().name not in readers


class LostAfter(Answers):
    """Its worker answers so many batches and is gone then."""

    left = 2

    async def _send(self, target: Target, batch: list[Asked]) -> list[Reply]:
        if self.left == 0:
            raise Unavailable("query_worker_busy", "earlier queries took all the time")
        self.left -= 1
        return await super()._send(target, batch)


@pytest.mark.parametrize(("batches", "num_questions"), [(2, MAX_BATCH), (5, 2 * MAX_BATCH), (0, None)])
def test_a_comparison_that_meets_a_503_tells_what_it_has(
    threads: Places, tmp_path: Path, batches: int, num_questions: int | None
) -> None:
    batcher = LostAfter(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    batcher.left = batches
    models = [Target("default", "b", "models/1/x"), Target("default", "c", "models/2/x")]
    outcome, note = asyncio.run(
        hold(Prepared("test", (QUESTION,) * 1000, 1000), models, Asking(batcher, threads, ""), 3)
    )
    assert note == "earlier queries took all the time"
    assert (outcome and outcome.num_questions) == num_questions
    assert outcome is None or outcome.truncated


def test_a_comparison_in_time_is_whole_and_in_order(threads: Places, tmp_path: Path) -> None:
    batcher = Answers(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    questions = tuple(replace(QUESTION, group=f"group {number // 50}") for number in range(100))
    models = [Target("default", "b", "models/1/x"), Target("default", "c", "models/2/x")]
    outcome, note = asyncio.run(hold(Prepared("test", questions, 100), models, Asking(batcher, threads, ""), 3))
    assert outcome is not None
    assert (outcome.truncated, note) == (False, None)
    assert [group.name for group in outcome.groups] == ["all", "group 0", "group 1"]


def test_comparisons_are_bounded_and_keep_nobody_from_looking_up_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Semaphore(0), threading.Event()

    def prepare(*_: object) -> None:
        begun.release()
        over.wait(30)
        raise Invalid("bad_comparison", "over")

    monkeypatch.setattr(comparison, "prepare", prepare)
    app = create_app(Settings(data_dir=tmp_path, redis_url="redis://127.0.0.1:1"))
    migrate(app.state.database.engine)

    async def crowd() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as client:
            compared = [asyncio.ensure_future(client.get("/models/compare", params={"ids": "a,b"})) for _ in range(20)]
            await asyncio.to_thread(begun.acquire)
            async with asyncio.timeout(10):
                assert await asyncio.to_thread(lambda: "not starved") == "not starved"
            over.set()
            return await asyncio.gather(*compared)

    answers = asyncio.run(crowd())
    codes = Counter(answer.json()["code"] for answer in answers)
    assert codes == {"bad_comparison": 2, "too_many_comparisons": 18}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert "CTP_MAX_COMPARISONS" in refused.json()["detail"]
    app.state.database.dispose()
