"""Every setting, from `CTP_*` environment variables. The README's table is tested to list exactly these."""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda level: str(level).upper())]
MIB = 1024 * 1024
NAME_LIMIT = 512  # of entities and predicates, in characters; the setting may be below it
GOALS_LIMIT = 10_000  # of one query, before any is looked at; the setting may be below it


class UserError(Exception):
    """Something that the person at the terminal must change, in one line; no call ever answers with it."""


class Settings(BaseSettings):
    """Defaults are those of the embedded service that `ctp up` starts."""

    model_config = SettingsConfigDict(env_prefix="CTP_", frozen=True, extra="forbid")

    data_dir: Path = Field(Path(".ctp"), description="Folder of the embedded database, queue and model files.")
    database_url: str = Field("", description="SQLAlchemy URL; empty: SQLite in the data folder.")
    redis_url: str = Field("", description="Redis URL, no other service's; empty: `ctp up` starts one.")
    artifacts_url: str = Field("", description="fsspec URL of the model files; empty: `artifacts` in the data folder.")
    host: str = Field("127.0.0.1", description="Address that the API listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port that the API listens on.")
    device: str = Field("auto", description="Torch device of the workers; `auto`: a GPU where there is one.")
    threads: int = Field(0, ge=0, description="Threads of one worker; 0: cores ÷ 2.")
    log_level: LogLevel = Field("INFO", description="Least level that is logged: DEBUG, INFO, WARNING or ERROR.")

    require_keys: bool = Field(False, description="Ask for keys on loopback too, before the first one is made.")

    max_body_bytes: int = Field(48 * MIB, gt=0, description="Largest request body, but for imports of models.")
    max_json_bytes: int = Field(16 * MIB, gt=0, description="Largest request body of type application/json.")
    max_decompressed_bytes: int = Field(512 * MIB, gt=0, description="Largest file of a KB once it is unzipped.")
    max_compression_ratio: float = Field(200.0, gt=1, description="Most bytes that one byte of gzip or zip may become.")
    max_line_bytes: int = Field(64 * 1024, gt=0, description="Longest line of a file of a KB.")
    max_symbols: int = Field(1_000_000, gt=0, description="Most entities, and most predicates, in one KB.")
    max_requests_per_second: float = Field(5000.0, ge=1, description="Calls a second of a tenant to one API process.")
    header_seconds: float = Field(10.0, gt=0, description="Time in which the head of a request must be complete.")
    body_seconds: float = Field(10.0, gt=0, description="Time that the API waits for a body, besides its bytes' own.")
    min_body_bytes_per_second: int = Field(8192, gt=0, description="Slowest body that is accepted in the long run.")
    max_facts: int = Field(2_000_000, gt=0, description="Most facts in one KB.")
    max_name_length: int = Field(
        NAME_LIMIT, gt=0, le=NAME_LIMIT, description="Longest entity or predicate name, in characters."
    )
    max_query_facts: int = Field(10_000, gt=0, description="Most extra facts in one query.")
    max_goals: int = Field(256, gt=0, le=GOALS_LIMIT, description="Most goals in one query.")
    max_query_results: int = Field(20_000, gt=0, description="Most goals x top_k x (1 + proofs) in one query.")
    max_waiting_queries: int = Field(2000, gt=0, description="Questions that may wait in one API process.")
    max_waiting_calls: int = Field(200, gt=0, description="Calls of a tenant that wait for jobs, in one API process.")
    query_seconds: float = Field(5.0, gt=0, description="Time that the search of one query may take.")
    reply_seconds: float = Field(20.0, gt=0, description="Time that the API waits for a query worker.")
    compare_seconds: float = Field(40.0, gt=0, description="Time that the questions of one comparison may take.")
    model_cache_bytes: int = Field(2048 * MIB, gt=0, description="Memory that a query worker keeps models in.")

    lease_seconds: float = Field(30.0, gt=0, description="A job whose worker is silent for so long is started again.")
    heartbeat_seconds: float = Field(10.0, gt=0, description="How often a worker renews its lease.")
    reconcile_seconds: float = Field(10.0, gt=0, description="How often expired leases are looked for.")
    relay_seconds: float = Field(0.5, gt=0, description="How often new jobs are handed to the queue.")
    cancel_seconds: float = Field(2.0, gt=0, description="How often a worker looks whether its job was cancelled.")
    checkpoint_seconds: float = Field(15.0, ge=0, description="Least time between two checkpoints of a job.")
    storage_wait_seconds: float = Field(3600.0, ge=0, description="How long a job waits for storage that is away.")
    max_queued_jobs: int = Field(100, ge=1, description="Most jobs of one tenant that may wait for a worker.")
    max_model_bytes: int = Field(1024 * MIB, gt=0, description="Largest model that may be imported, unpacked.")
    max_import_bytes: int = Field(512 * MIB, gt=0, description="Largest archive of a model that may be imported.")
    max_attempts: int = Field(3, ge=1, description="A job that loses its worker so many times has failed.")

    url: str = Field("http://127.0.0.1:8000", description="Service that the client commands talk to.")
    key: str = Field("", description="Key that the client commands send.")

    @model_validator(mode="after")
    def _beats_before_the_lease_ends(self) -> Self:
        if self.heartbeat_seconds >= self.lease_seconds:
            raise ValueError("CTP_HEARTBEAT_SECONDS must be less than CTP_LEASE_SECONDS")
        return self

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'ctp.db'}"

    @property
    def artifacts(self) -> str:
        return self.artifacts_url or f"file://{self.data_dir.absolute() / 'artifacts'}"

    def make_data_dir(self) -> None:
        """What is in it is nobody else's business; a folder that was there keeps the rights it was given."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


@cache
def get_settings() -> Settings:
    """Read once for each process; raises UserError that names the variable."""
    try:
        return Settings()
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        if not fault["loc"]:
            raise UserError(f"the settings do not go together ({fault['msg']})") from None
        name = f"CTP_{'_'.join(map(str, fault['loc'])).upper()}"
        raise UserError(f"{name}={fault['input']!r} cannot be used ({fault['msg']})") from None


def settings_table() -> str:
    """Every setting as the Markdown table of the README."""
    rows = [
        f"| `CTP_{name.upper()}` | {f'`{field.default}`' if field.default != '' else ''} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])
