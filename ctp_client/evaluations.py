"""`client.evaluations`."""

from collections.abc import Iterator

from ctp_client.jobs import when_finished
from ctp_client.transport import Transport, segment
from ctp_client.types import Evaluation


class Evaluations:
    """The figures of models on splits of KBs."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, model: str, split: str = "test", kb: str | None = None, limit: int | None = None) -> Evaluation:
        """Starts an evaluation; `limit` asks for a sample, always the same. It is a job, too: `client.jobs.cancel`."""
        body = {"model": model, "split": split, "kb": kb, "limit": limit}
        given = {key: value for key, value in body.items() if value is not None}
        return Evaluation.model_validate(self._transport.send("POST", "/evaluations", json=given).json())

    def list(self, model: str | None = None, limit: int | None = None) -> Iterator[Evaluation]:
        """Newest first, with their metrics alone."""
        return self._transport.items(Evaluation, "/evaluations", limit, model=model)

    def get(self, evaluation: str) -> Evaluation:
        return self._transport.get(Evaluation, f"/evaluations/{segment(evaluation)}")

    def wait(self, evaluation: str, timeout: float = float("inf")) -> Evaluation:
        """The evaluation when it has ended, or as it is when the time is up."""
        return when_finished(self._transport, Evaluation, f"/evaluations/{segment(evaluation)}", timeout)

    def delete(self, evaluation: str) -> None:
        self._transport.send("DELETE", f"/evaluations/{segment(evaluation)}")
