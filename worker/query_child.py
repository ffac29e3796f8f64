"""The process that answers: it loads torch, then reads one batch of questions after another from its standard input.

Started by worker.query_children as `python -m worker.query_child`, with the bytes of memory that it may take if there
is a limit. Before each part of its work it says how many
seconds it may be silent; at the end it says what it has answered. It ends when its parent does.
"""

import gc
import json
import os
import select
import signal
import sys
import threading
from multiprocessing.connection import Connection

from service.local.freed_memory import give_back_regularly
from service.logs import configure_logs
from service.settings import get_settings
from worker import memory
from worker.names import encode_word
from worker.pipes import PARENT_GONE, STDIN, reply_descriptor, send
from worker.query_engine import QueryEngine


def main(limit: int | None = None) -> None:
    settings = get_settings()
    configure_logs(settings.log_level)
    memory.offer_to_the_kernel()
    give_back_regularly()
    if limit is not None:
        memory.restrict(os.getpid(), limit)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # the parent waits for the batches that we have, and then ends
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()
    words = reply_descriptor()
    engine = QueryEngine(settings, lambda word: send(words, encode_word(word)))
    _tune_garbage_collector()
    send(words, encode_word(0))
    orders = Connection(STDIN, writable=False)
    while True:
        order, large, facts = orders.recv_bytes().partition(b"\n")
        message = json.loads(order)
        engine.answer({**message, "facts": json.loads(facts)} if large else message)


def _end_with_parent() -> None:
    poll = select.poll()
    poll.register(STDIN, 0)  # nothing but the end of the pipe
    poll.poll()
    os._exit(PARENT_GONE)


def _tune_garbage_collector() -> None:
    # Loaded modules stay for ever, so the garbage collector need not scan them.
    gc.collect()
    gc.freeze()
    # Answers are trees of tuples, freed by reference counting; cycles are rare.
    gc.set_threshold(100_000, 20, 50)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
