"""Starts and watches the child processes that answer queries, and gives them the batches in fair shares.

A search that takes longer than its budget and a grace, or more memory than its child may have, is ended by killing the
child. The parent never loads torch.
"""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from multiprocessing import Pipe
from typing import Any, cast

import structlog

from service.health.counters import QUERIES_KILLED, WORKER_COUNTS
from service.queries.wire import Problem, Reply, facts_key, pack
from service.queue import make_redis
from service.settings import Settings
from worker import memory
from worker.names import LOAD_SECONDS, OUT_OF_MEMORY, Answered, decode_word, unavailable
from worker.pipes import receive, silence
from worker.shares import Seat, Shares

log = structlog.get_logger()
LEAST_BYTES = 10**9  # of a child: with less, one that has just loaded torch and a model would be ended for ever
REPLY_TTL_SECONDS = 60
ANSWER_SHARE = 0.8  # share of the time that the sender still waits; the rest is for transport
READ_SECONDS = 10.0  # in which a child must have read its order, or go on with what it says
PIPE_BYTES = 32 * 1024  # that a pipe takes at once, or more
ATTEMPTS = 2
# Between a child that ended before it was ready and the next try, so that a broken installation costs little.
PAUSE_SECONDS = 1.0


Message = dict[str, Any]


BUSY = unavailable("query_worker_busy", "earlier queries took all the time of the query worker: try again")
LOST = unavailable(
    "query_worker_lost", "the query's process died twice during this query: try a smaller query, or try again later"
)


class Gone(Exception):
    """The child has ended by itself, or was killed from outside."""


class Hung(Exception):
    """The child was silent for longer than it may be, and was killed."""


class TooLarge(Exception):
    """The child took more memory than it may, and was killed."""


class Crowded(TooLarge):
    """The same of a child that had other models or earlier answers in memory; `seat` is where the next one starts."""

    def __init__(self, seat: "Seat[QueryChild]") -> None:
        super().__init__()
        self.seat = seat


class QueryChild:
    """A process that answers one batch after another, with at most `limit` bytes of memory."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        command = [sys.executable, "-m", "worker.query_child", *([] if limit is None else [str(limit)])]
        # A pipe is closed when nobody refers to it any more: of two threads that know the child, none must come first.
        orders, self._orders = Pipe(duplex=False)
        self._words, words = Pipe(duplex=False)
        with orders, words:
            self.process = subprocess.Popen(command, stdin=orders.fileno(), stdout=words.fileno())  # noqa: S603

    def wait_until_ready(self) -> None:
        """Raises Gone or Hung if the child does not get there."""
        with self._killed_on_failure():
            self._heard(LOAD_SECONDS)

    def answer(self, message: Message, patience: float, facts: bytes | None = None) -> Answered:
        """Waits up to `patience` seconds for the first word, then for as long as each word says.

        `facts` are the JSON of those that are not in the message.
        Raises Hung or TooLarge if the child takes too much time or memory, Gone if it ends; it is killed then, in
        whatever state it is.
        """
        with self._killed_on_failure():
            order = json.dumps(message).encode()
            self._send(order if facts is None else order + b"\n" + facts)
            word = self._heard(patience)
            while not isinstance(word, Answered):
                word = self._heard(word)
            return word

    @contextmanager
    def _killed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.process.kill()
            raise

    def _send(self, order: bytes) -> None:
        # A large order does not fit into the pipe: a child that does not read it would keep us for ever.
        unread = threading.Timer(READ_SECONDS, self.process.kill)
        if len(order) > PIPE_BYTES:
            unread.start()
        try:
            self._orders.send_bytes(order)
        except OSError:
            raise Gone from None
        finally:
            unread.cancel()

    def _heard(self, seconds: float) -> float | Answered:
        def wait(begun: bool) -> None:
            too_long: type[Exception] = Hung
            found = silence(self._words, READ_SECONDS if begun else seconds, too_long, self._beyond)
            if found is not None:
                raise found

        try:
            return decode_word(receive(self._words.fileno(), wait))
        except (EOFError, OSError):
            raise Gone from None

    def _beyond(self) -> type[Exception] | None:
        return TooLarge if self.limit is not None and memory.resident_bytes(self.process.pid) > self.limit else None


class QueryChildren:
    """The children of one query worker; `on_change` is called when one is ready and when one is gone."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.shares: Shares[QueryChild] = Shares(settings.query_processes)
        # What is free before the first child is started: each has the same share.
        share = memory.share_of(memory.free_bytes(), settings.query_processes, memory.QUERY_SHARE)
        self.limit = settings.query_memory_bytes or (share and max(share, LEAST_BYTES))
        self.redis = make_redis(settings)
        self.on_change: Callable[[], None] = lambda: None
        self._starting = threading.Lock()  # one at a time, so that the first is ready as soon as can be
        self._closed = threading.Event()

    def start(self) -> None:
        for number, seat in enumerate(self.shares.seats):
            threading.Thread(target=self._keep, args=(seat,), name=f"keeper-{number}", daemon=True).start()

    def leave(self) -> None:
        """Starts no more children; those that are there answer what is under way."""
        self._closed.set()

    def close(self) -> None:
        """Ends all children; one that is just being started ends with this process."""
        self.leave()
        for seat in self.shares.seats:
            if (child := seat.child) is not None:
                child.process.kill()

    def _keep(self, seat: Seat[QueryChild]) -> None:
        """Keeps a child in this seat: starts it, waits for its end, starts it again."""
        while not self._closed.is_set():
            child = self._started()
            if child is None:
                continue
            self.shares.arrived(seat, child)
            self.on_change()
            code = child.process.wait()
            self.shares.lost(seat)
            self.on_change()
            if not self._closed.is_set():
                log.warning("query_child_lost", process=child.process.pid, code=code)

    def _started(self) -> QueryChild | None:
        """Returns a child that is ready, or None after a pause if it did not get there."""
        with self._starting:
            try:
                child = QueryChild(self.limit)
                child.wait_until_ready()
            except (Gone, Hung, TooLarge, OSError) as error:
                if not self._closed.wait(PAUSE_SECONDS):  # whoever stops us may have stopped the child first
                    log.error("query_child_not_ready", reason=str(error) or error.__doc__)
                return None
        return child

    def answer(self, message: Message) -> None:
        """Answers a batch and sends the replies to the list that its sender listens to, if it still waits."""
        left = self.redis.pttl(message["waits"]) / 1000  # what it has waited in the queue is gone
        if left <= 0:
            log.info("batch_too_late", request_ids=message["request_ids"])
            return
        ends = time.monotonic() + ANSWER_SHARE * left
        replies, counts = self._replies(message, ends)
        with self.redis.pipeline(transaction=False) as pipeline:
            pipeline.rpush(message["reply_to"], pack(message["batch_id"], replies))
            pipeline.expire(message["reply_to"], REPLY_TTL_SECONDS)
            pipeline.delete(message["waits"], facts_key(message["batch_id"]))
            for name, number in counts.items():
                pipeline.hincrby(WORKER_COUNTS, name, number)
            pipeline.execute()

    def _replies(
        self, message: Message, ends: float, seat: Seat[QueryChild] | None = None
    ) -> tuple[list[Reply], Counter[str]]:
        """Returns a reply for each question; if the batch takes too much, its requests are asked again, each alone.

        One that was alone is asked again in a fresh child, at `seat`, if its child was not.
        """
        try:
            return self._answered(message, ends, seat)
        except (Hung, TooLarge) as error:
            told = OUT_OF_MEMORY if isinstance(error, TooLarge) else _too_long(message)
            log.warning("query_killed", code=told["code"], **{key: message[key] for key in ("request_ids", "model_id")})
            fresh = error.seat if isinstance(error, Crowded) else None
        counts = Counter({QUERIES_KILLED: 1})
        requests = list(_requests(message))
        if len(requests) == 1 and fresh is None:
            return [told] * len(message["questions"]), counts
        replies: list[Reply] = []
        for request in requests:
            some, counted = self._replies(request, ends, fresh if len(requests) == 1 else None)
            replies += some
            counts += counted
        return replies, counts

    def _answered(
        self, message: Message, ends: float, only: Seat[QueryChild] | None
    ) -> tuple[list[Reply], Counter[str]]:
        """Has a child answer, and another one if it ends meanwhile; raises Hung or TooLarge if it had to be killed."""
        facts = None
        if message["facts"] is None:
            facts = cast("bytes | None", self.redis.get(facts_key(message["batch_id"])))
            if facts is None:  # nobody waits for the answer any more
                return [BUSY] * len(message["questions"]), Counter()
        for _ in range(ATTEMPTS):
            given = self.shares.take(message["tenant"], (message["artifact"], message["kb_id"]), ends, only)
            if given is None:
                return [BUSY] * len(message["questions"]), Counter()
            seat, child = given
            is_fresh, left = not seat.models, max(0.0, ends - time.monotonic())
            try:
                patience = min(message["seconds"], left) + self.settings.query_grace_seconds
                answered = child.answer({**message, "seconds_left": left}, patience, facts)
            except Gone:
                continue
            except TooLarge:
                raise TooLarge if is_fresh else Crowded(seat) from None
            self.shares.give_back(seat, child, answered.models)
            return answered.replies, answered.counts
        return [LOST] * len(message["questions"]), Counter()


def _requests(message: Message) -> Iterator[Message]:
    """Yields the questions of each request as a message of its own."""
    pairs = zip(message["request_ids"], message["questions"], strict=True)
    for request_id, group in groupby(pairs, key=lambda pair: pair[0]):
        questions = [question for _, question in group]
        yield {**message, "request_ids": [request_id] * len(questions), "questions": questions}


def _too_long(message: Message) -> Problem:
    return unavailable(
        "query_too_long",
        f"the query took much longer than {message['seconds']:g} s (CTP_QUERY_SECONDS) and was ended: "
        "ask for less at once, or bring fewer facts",
    )


@cache
def query_children(settings: Settings) -> QueryChildren:
    """Returns the children of this process."""
    return QueryChildren(settings)
