"""What every fault test does before and after: train, follow, compare with an undisturbed run, look for damage."""

import json
import os
import signal
import sqlite3
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import torch
from sqlalchemy import func, select

from ctp_core.artifact import decode, encode
from ctp_core.methods import parse_config
from ctp_core.registry import create_trainer, load_model
from service.db.engine import Database
from service.db.tables import Job, ModelVersion, Removal
from service.files.storage import Files
from service.files.stores import make_storage
from service.local.cluster import Cluster, wait_for
from service.models.staging import IMPORTING
from service.samples import read_sample
from service.settings import Settings
from service.training.repository import TERMINAL

FAST = {
    "lease_seconds": "3",
    "heartbeat_seconds": "1",
    "reconcile_seconds": "1",
    "relay_seconds": "0.2",
    "cancel_seconds": "0.5",
    "checkpoint_seconds": "0.2",
    "log_level": "INFO",
    "query_processes": "1",
}
# About a quarter of a second for each epoch, in six steps: whatever happens, happens in the middle of one.
# Nations has few entities and these templates make a hundred rules: what follows the last epoch, such as calibration
# and counting rules, takes hardly any time.
# Every setting that would be searched or make it longer is given: the pace of a job is part of what is tested.
PROOFS = {"method": "proofs", "search": [], "mined": False, "constants": False, "members": 1}
SLOW = PROOFS | {"templates": {"1": 32, "2": 64, "3": 32}, "batch_size": 10}
JOB: dict[str, Any] = {"kb": "nations", "config": SLOW | {"epochs": 8}}
ENDLESS = {"kb": "nations", "config": SLOW | {"epochs": 10_000}}
SHORT = {"kb": "family", "config": PROOFS | {"templates": {"1": 4, "2": 4}, "epochs": 3}}


def undisturbed(job: Job) -> Files:
    """The files of the job's model, trained in one go, on one thread as in the workers."""
    return _undisturbed(json.dumps(job.config))


@cache
def _undisturbed(config: str) -> Files:
    torch.set_num_threads(1)
    kb = read_sample(JOB["kb"]).kb
    trainer = create_trainer(parse_config(kb.kind, json.loads(config)), kb, torch.device("cpu"))
    model = trainer.fit()
    model.rules()  # as in the workers: the files keep what was counted
    return encode(model.to_artifact())


@dataclass
class Watch:
    """A cluster under test, and every status that it answered with."""

    cluster: Cluster
    statuses: list[int] = field(default_factory=list)

    @contextmanager
    def client(self, name: str = "api") -> Iterator[httpx.Client]:
        def note(response: httpx.Response) -> None:
            self.statuses.append(response.status_code)

        with httpx.Client(base_url=self.cluster.url(name), timeout=60, event_hooks={"response": [note]}) as client:
            yield client

    def submit(self, body: Mapping[str, Any] = JOB, key: str | None = None, **more: Any) -> dict[str, Any]:
        with self.client() as client:
            headers = {"Idempotency-Key": key} if key else {}
            answer = client.post("/train", json={"name": f"m-{uuid.uuid4().hex[:8]}", **body, **more}, headers=headers)
            assert answer.status_code == 202, answer.text
            job: dict[str, Any] = answer.json()["job"]
            return job

    def job(self, job_id: str) -> Job:
        database = self.cluster.database()
        with database.read() as session:
            job = session.get_one(Job, job_id)
        database.dispose()
        return job

    def wait_for_epoch(self, job_id: str, epoch: int, attempt: int = 1) -> None:
        def there() -> bool:
            job = self.job(job_id)
            return job.attempt >= attempt and job.status == "running" and job.progress.get("epoch", 0) >= epoch

        wait_for(there, f"epoch {epoch} in attempt {attempt}", 120)

    def wait_for_end(self, *job_ids: str, seconds: float = 180) -> list[Job]:
        wait_for(lambda: all(self.job(j).status in TERMINAL for j in job_ids), f"the end of {job_ids}", seconds)
        return [self.job(job_id) for job_id in job_ids]

    def freeze(self, *processes: int) -> None:
        """Stops them where they hold no lock of the SQLite file, which nobody can take from one that stands still.

        Whoever has the file to himself knows that no other has any part of it.
        """
        with closing(sqlite3.connect(self.cluster.folder / "ctp.db", timeout=60, isolation_level=None)) as alone:
            alone.execute("BEGIN EXCLUSIVE")
            for process in processes:
                os.kill(process, signal.SIGSTOP)
                wait_for(partial(_stands_still, process), f"{process} stands still", 60)

    def wait_for_removals(self) -> None:
        """Until no file is still to go."""
        database = self.cluster.database()
        try:
            wait_for(lambda: self._removals(database) == 0, "all that was to be removed is gone", 60)
        finally:
            database.dispose()

    def wait_until_staged_is_swept(self) -> None:
        """Rules of a training that came to nothing are removed later."""
        database = self.cluster.database()

        def staged() -> int:
            with database.read() as session:
                return session.scalars(select(func.count()).where(ModelVersion.tenant == IMPORTING)).one()

        try:
            wait_for(lambda: staged() == 0, "all that was staged is given to a model or gone", 60)
        finally:
            database.dispose()

    @staticmethod
    def _removals(database: Database) -> int:
        with database.read() as session:
            return session.scalars(select(func.count()).select_from(Removal)).one()

    def artifact(self, model_id: str) -> str:
        database = self.cluster.database()
        with database.read() as session:
            artifact = session.get_one(ModelVersion, model_id).artifact
        database.dispose()
        assert artifact is not None
        return artifact

    def files(self, model_id: str) -> Files:
        return make_storage(self.settings).get(self.artifact(model_id))

    @property
    def settings(self) -> Settings:
        values = {key: value for key, value in self.cluster.settings.items() if key.endswith("_url")}
        own = {"data_dir": str(self.cluster.folder), "redis_url": self.cluster.redis_url}
        return Settings.model_validate(own | values)

    def cancel(self, job_id: str) -> httpx.Response:
        with self.client() as client:
            return client.post(f"/jobs/{job_id}/cancel")

    @property
    def artifacts(self) -> Path:
        return self.cluster.folder / "artifacts"

    def log(self, name: str) -> str:
        return (self.cluster.folder / "logs" / f"{name}.log").read_text()

    def check_nothing_is_lost(self) -> None:
        """Every job ends, at most one model for each, every ready model loads, no answer was a 500."""
        database = self.cluster.database()
        with database.read() as session:
            assert session.scalars(select(Job.id).where(Job.status.not_in(TERMINAL))).all() == []
            succeeded = session.scalar(select(func.count()).where(Job.status == "succeeded", Job.parent_id.is_(None)))
            trained = (ModelVersion.status == "ready", ModelVersion.trained_by.is_not(None))
            ready = session.scalars(select(ModelVersion).where(*trained)).all()
            pending = ModelVersion.status == "pending", ModelVersion.tenant != IMPORTING
            waiting = session.scalar(select(func.count()).where(*pending))
        database.dispose()
        assert (len(ready), waiting) == (succeeded, 0)
        for model in ready:
            load_model(decode(self.files(model.id)), torch.device("cpu"))
        assert not [status for status in self.statuses if status == 500]
        for log in (self.cluster.folder / "logs").glob("api*.log"):
            assert "unexpected_error" not in log.read_text(), log


def _stands_still(process: int) -> bool:
    return " T " in Path(f"/proc/{process}/stat").read_text()
