"""`client.predictions`."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ctp_client.jobs import when_finished
from ctp_client.transport import Transport, segment
from ctp_client.types import Prediction


class Predictions:
    """Predictions in bulk: every missing fact of a predicate that a model believes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        model: str,
        predicate: str,
        subjects: Iterable[str] | None = None,
        objects: Iterable[str] | None = None,
        **options: Any,
    ) -> Prediction:
        """Starts a prediction. It is a job, too: `client.jobs.cancel`.

        `options` are the rest of the call: `kb`, `min_score`, `top_k_per_question`, `proofs` (0 or 1), `exclude_known`
        and `format` (parquet, csv or jsonl).
        """
        listed = {"subjects": subjects, "objects": objects}
        names = {key: list(value) for key, value in listed.items() if value is not None}
        given = {key: value for key, value in options.items() if value is not None}
        return self._transport.post(
            Prediction, "/predictions", {"model": model, "predicate": predicate} | names | given
        )

    def list(self, model: str | None = None, limit: int | None = None) -> Iterator[Prediction]:
        """Newest first."""
        return self._transport.items(Prediction, "/predictions", limit, model=model)

    def get(self, prediction: str) -> Prediction:
        return self._transport.get(Prediction, f"/predictions/{segment(prediction)}")

    def wait(self, prediction: str, timeout: float = float("inf")) -> Prediction:
        """The prediction when it has ended, or as it is when the time is up."""
        return when_finished(self._transport, Prediction, f"/predictions/{segment(prediction)}", timeout)

    def download(self, prediction: str, to: Path) -> None:
        """Writes the rows to a file."""
        self._transport.download(f"/predictions/{segment(prediction)}/download", to)

    def delete(self, prediction: str) -> None:
        self._transport.send("DELETE", f"/predictions/{segment(prediction)}")
