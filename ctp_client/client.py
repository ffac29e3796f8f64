"""The client: one object for every call of the service."""

import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from ctp_client.evaluations import Evaluations
from ctp_client.jobs import Jobs
from ctp_client.kbs import Kbs
from ctp_client.models import Models
from ctp_client.predictions import Predictions
from ctp_client.transport import Transport
from ctp_client.types import Answers, Explanation, LogicalAnswers, Preset, Training

DEFAULT_URL = "http://127.0.0.1:8000"
CALL_SECONDS = 60.0


class Client:
    """`url` and `key` default to CTP_URL and CTP_KEY. Raises ClientError from every call that did not succeed.

    >>> with Client() as client:
    ...     training = client.train("family", name="family")
    ...     client.jobs.wait(training.job.id)
    ...     best = client.query("family", predicate="grandparent", object="morty").answers[0]
    """

    def __init__(self, url: str | None = None, key: str | None = None, timeout: float = CALL_SECONDS) -> None:
        url = url or os.environ.get("CTP_URL") or DEFAULT_URL
        self._transport = Transport(url, key or os.environ.get("CTP_KEY"), timeout)
        self.kbs = Kbs(self._transport)
        self.jobs = Jobs(self._transport)
        self.models = Models(self._transport)
        self.evaluations = Evaluations(self._transport)
        self.predictions = Predictions(self._transport)

    @property
    def url(self) -> str:
        return self._transport.url

    def presets(self, kb: str, method: str | None = None) -> list[Preset]:
        """What each preset means for a KB, by its own method or another."""
        params = {"kb": kb} | ({"method": method} if method else {})
        answer = self._transport.send("GET", "/presets", params=params).json()
        return [Preset.model_validate(preset) for preset in answer["items"]]

    def train(
        self,
        kb: str,
        name: str | None = None,
        preset: str | None = None,
        config: dict[str, Any] | None = None,
        seeds: Iterable[int] = (0,),
        tags: dict[str, str] | None = None,
        idempotency_key: str | None = None,
        holdout: Mapping[str, float] | None = None,
    ) -> Training:
        """Starts a training; the model is named after the KB where no name is given.

        `holdout` are shares of a KB without splits to hold out, such as {"valid": 0.05, "test": 0.1}.
        """
        body: dict[str, Any] = {"kb": kb, "config": config or {}, "seeds": list(seeds), "tags": tags or {}}
        body |= ({"name": name} if name else {}) | ({"preset": preset} if preset else {})
        body |= {"holdout": dict(holdout)} if holdout else {}
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return Training.model_validate(self._transport.send("POST", "/train", json=body, headers=headers).json())

    def query(
        self,
        model: str,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        facts: Iterable[tuple[str, str, str]] = (),
        top_k: int = 10,
        proofs: int = 3,
        **options: Any,
    ) -> Answers:
        """Asks for the place that is left out; with none left out, for the score of that fact.

        `options` are the rest of the call: `depth`, `exclude_known`, `kb`.
        """
        goal = {"subject": subject, "predicate": predicate, "object": object}
        body = {"model": model, "goal": goal, "facts": [list(fact) for fact in facts]}
        return self._transport.post(Answers, "/query", body | {"top_k": top_k, "proofs": proofs} | options)

    def ask(
        self,
        model: str,
        where: str | Sequence[str | Mapping[str, Any]],
        select: Sequence[str] | None = None,
        top_k: int = 10,
        proofs: int = 1,
        **options: Any,
    ) -> LogicalAnswers:
        """Asks a question with several atoms and variables: `client.ask("bio", "treats(?d, asthma), targets(?d, ?p)")`.

        `options` are the rest of the call: `distinct`, `tnorm`, `types`, `facts`, `without`, `kb`, `explain`.
        """
        atoms = [where] if isinstance(where, str) else list(where)
        body = {"model": model, "where": atoms, "select": select, "top_k": top_k, "proofs": proofs}
        return self._transport.post(LogicalAnswers, "/query", body | options)

    def explain(
        self, model: str, fact: tuple[str, str, str], threshold: float = 0.5, proofs: int = 10, **options: Any
    ) -> Explanation:
        """Why a fact has its score, which rules almost prove it, and without which facts it would be too low.

        `options` are the rest of the call: `kb`, `near_misses`, `facts`, `without`.
        """
        body = {"model": model, "fact": list(fact), "threshold": threshold, "proofs": proofs}
        return self._transport.post(Explanation, "/explain", body | options)

    def close(self) -> None:
        self._transport.http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
