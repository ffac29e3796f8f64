"""All settings, read from `CTP_*` environment variables. A test keeps the README's table equal to them."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(lambda level: str(level).upper())]
MIB = 1024 * 1024
MAX_HELD_BYTES = 64 * 1024 * MIB  # more than any machine should give to bodies
MAX_ANSWER_BYTES = 100 * MIB  # a batch has four times as many, and Redis holds values of up to 512 MiB
NAME_LIMIT = 512  # most characters of an entity or predicate; the setting can only lower it
MAX_RULES = 100_000  # that a model lists: a training stores no more, an archive may hold no more
ATOMS_LIMIT = 64  # most atoms of a logical question; the setting can only lower it
GOALS_LIMIT = 10_000  # most goals of a query, checked while parsing; the setting can only lower it


class UserError(Exception):
    """Tells the person at the terminal, in one line, what to change; never sent as the answer to a call."""


class Settings(BaseSettings):
    """The defaults are those of the embedded service that `ctp up` starts."""

    model_config = SettingsConfigDict(env_prefix="CTP_", frozen=True, extra="forbid")

    data_dir: Path = Field(Path(".ctp"), description="Folder of the embedded database, the queue and the model files.")
    database_url: str = Field("", description="SQLAlchemy URL of the database; empty: SQLite in the data folder.")
    redis_url: str = Field("", description="URL of a Redis that no other service uses; empty: `ctp up` starts one.")
    artifacts_url: str = Field(
        "", description="fsspec URL where model files are stored; empty: `artifacts` in the data folder."
    )
    cache_dir: str = Field(
        "",
        description="Folder of local copies of KBs, which the processes of one machine may share; empty: `cache` in "
        "the data folder.",
    )
    cache_bytes: int = Field(
        8192 * MIB,
        gt=0,
        description="Bytes of local copies of KBs that are kept, at least 1; the one in use is kept in any case. More "
        "takes more disk and fetches KBs from storage less often.",
    )
    duckdb_memory_bytes: int = Field(
        256 * MIB,
        ge=32 * MIB,
        description="Memory in bytes that DuckDB may take in one process, at least 33554432, to sort and search the "
        "facts of KBs; what does not fit is sorted on disk. More makes uploads of large KBs faster.",
    )
    host: str = Field(
        "127.0.0.1", description="Address that the API listens on; any but a loopback address needs keys."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port that the API listens on, 1 to 65535.")
    device: str = Field(
        "auto", description="Torch device of the workers, such as `cpu` or `cuda`; `auto`: a GPU if there is one."
    )
    threads: int = Field(
        0,
        ge=0,
        description="Threads of one worker, from 0; more make one job faster and the others slower; 0: half the cores.",
    )
    log_level: LogLevel = Field(
        "INFO", description="Lowest level that is logged: DEBUG, INFO, WARNING or ERROR; a higher one logs less."
    )

    require_keys: bool = Field(
        False, description="Require a key for every call, even on loopback before the first key is made: true or false."
    )

    max_body_bytes: int = Field(
        2048 * MIB,
        gt=0,
        description="Largest request body in bytes, except JSON bodies and archives of models, at least 1; more admits "
        "larger KBs, whose files take disk and time.",
    )
    max_json_bytes: int = Field(
        16 * MIB,
        gt=0,
        description="Largest request body of type application/json in bytes, at least 1; such bodies are held in "
        "memory, so more takes more of it.",
    )
    max_tenant_waiting_bytes: int = Field(
        32 * MIB,
        gt=0,
        le=MAX_HELD_BYTES,
        description="JSON bodies of one tenant, in bytes, that one API process holds until they are answered; more are "
        "answered with 429. A larger value admits more calls at a time and takes more memory. At least "
        "CTP_MAX_JSON_BYTES, at most 64 GiB.",
    )
    max_waiting_bytes: int = Field(
        128 * MIB,
        gt=0,
        le=MAX_HELD_BYTES,
        description="JSON bodies of all tenants, in bytes, that one API process holds until they are answered; more are"
        " answered with 429. A larger value admits more calls at a time and takes more memory. At least "
        "CTP_MAX_TENANT_WAITING_BYTES, at most 64 GiB.",
    )
    max_tenant_unread_bytes: int = Field(
        64 * MIB,
        gt=0,
        le=MAX_HELD_BYTES,
        description="Large answers of one tenant, in bytes, that one API process holds until they are read, apart from "
        "one that is larger; more are answered with 429. A larger value is kinder to slow readers and takes more "
        "memory. At least 1, at most 64 GiB.",
    )
    max_unread_bytes: int = Field(
        256 * MIB,
        gt=0,
        le=MAX_HELD_BYTES,
        description="Large answers of all tenants, in bytes, that one API process holds until they are read, apart "
        "from one that is larger; more are answered with 429. A larger value is kinder to slow readers and takes more "
        "memory. At least 1, at most 64 GiB.",
    )
    max_decompressed_bytes: int = Field(
        4096 * MIB,
        gt=0,
        description="Largest file of an uploaded KB in bytes after it is unzipped, at least 1; more admits larger KBs, "
        "which take longer to read.",
    )
    max_compression_ratio: float = Field(
        200.0,
        gt=1,
        description="Largest ratio of unzipped to zipped bytes, above 1; a larger ratio is taken for an attack. More "
        "admits files that compress better, and larger attacks.",
    )
    max_line_bytes: int = Field(
        64 * 1024,
        gt=0,
        description="Longest line of an uploaded file in bytes, at least 1; more admits longer names and graphs, and "
        "takes more memory.",
    )
    max_symbols: int = Field(
        10_000_000,
        gt=0,
        le=2**31 - 1,
        description="Most entities, and most predicates, in one KB, 1 to 2147483647; more take more memory.",
    )
    max_requests_per_second: float = Field(
        5000.0,
        ge=1,
        description="Most calls per second from one tenant to one API process, at least 1; more let one tenant slow "
        "down the others further.",
    )
    header_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds, above 0, in which the headers of a request must arrive, and what is left of a body that "
        "was refused; more is kinder to slow callers and holds their connections longer.",
    )
    body_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds, above 0, that the API waits for a body, or for an answer to be read, before the minimum "
        "rate below applies; more is kinder to slow callers and holds their memory longer.",
    )
    min_body_bytes_per_second: int = Field(
        8192,
        gt=0,
        description="Slowest rate at which a body may arrive, or an answer be read, at least 1; slower bodies are "
        "refused, slower readers cut off, so more refuses more callers.",
    )
    max_facts: int = Field(
        50_000_000,
        gt=0,
        le=2**31 - 1,
        description="Most facts in one KB, 1 to 2147483647; more take more memory and training time.",
    )
    max_tenant_bytes: int = Field(
        65_536 * MIB,
        gt=0,
        description="Most bytes that the KBs, models and checkpoints of one tenant may take in storage, at least 1; "
        "more lets one tenant use more of it.",
    )
    max_name_length: int = Field(
        NAME_LIMIT,
        gt=0,
        le=NAME_LIMIT,
        description="Longest name of an entity or predicate in characters, 1 to 512; more take more room in every "
        "answer.",
    )
    max_query_facts: int = Field(
        10_000, gt=0, description="Most facts that one query may bring along, at least 1; more take longer to answer."
    )
    max_goals: int = Field(
        256,
        gt=0,
        le=GOALS_LIMIT,
        description="Most goals in one query, 1 to 10000; more take longer to answer, while others wait.",
    )
    max_query_results: int = Field(
        20_000,
        gt=0,
        description="Most results of one query, counted as goals × top_k × (1 + proofs), at least 1; more take longer "
        "to answer.",
    )
    max_atoms: int = Field(
        16,
        gt=0,
        le=ATOMS_LIMIT,
        description="Most atoms of one logical question (`where`), 1 to 64; more take longer to answer.",
    )
    where_width: int = Field(
        1000,
        gt=0,
        le=100_000,
        description="Most entities that one variable of a logical question may stand for beside what is bound already, "
        "1 to 100000: the best ones. A KB with no more entities is searched exactly; more take more time and memory.",
    )
    max_answer_bytes: int = Field(
        16 * MIB,
        gt=0,
        le=MAX_ANSWER_BYTES,
        description="Most bytes of the answers to one query, 1 to 104857600; beyond, answers and proofs are left out "
        "and the answer says so. More takes more memory in API, worker and Redis.",
    )
    max_waiting_queries: int = Field(
        2000,
        gt=0,
        description="Most questions of one tenant that may wait in one API process, at least 1; more are answered with "
        "429. A larger value lets more callers wait, and for longer.",
    )
    max_waiting_calls: int = Field(
        200,
        gt=0,
        description="Most calls of one tenant that may wait for jobs in one API process, at least 1; more are answered "
        "with 429. A larger value holds more connections open.",
    )
    query_seconds: float = Field(
        5.0,
        gt=0,
        description="Seconds, above 0, that the search of one query may take; a longer search may find more answers and"
        " keeps others waiting.",
    )
    query_grace_seconds: float = Field(
        5.0,
        gt=0,
        description="Seconds, above 0, that a search may take beyond `CTP_QUERY_SECONDS` before its process is killed; "
        "more forgives longer steps and notices a hung search later.",
    )
    reply_seconds: float = Field(
        20.0,
        gt=0,
        description="Seconds, above 0, that the API waits for a query worker before it answers 503; more survives "
        "longer restarts and lets callers wait longer.",
    )
    max_downloads: int = Field(
        2,
        gt=0,
        le=1000,
        description="Most exports of models and KBs that one tenant may have under way in one API process, 1 to 1000; "
        "more take more memory.",
    )
    max_imports: int = Field(
        2,
        gt=0,
        le=1000,
        description="Most imports of models that one tenant may have under way in one API process, 1 to 1000; more take"
        " more memory and disk.",
    )
    max_uploads: int = Field(
        2,
        gt=0,
        le=1000,
        description="Most uploads of KBs that one tenant may have under way in one API process, 1 to 1000; more take "
        "more memory and disk.",
    )
    max_comparisons: int = Field(
        2,
        gt=0,
        le=1000,
        description="Most comparisons of models that one tenant may have under way in one API process, 1 to 1000; more "
        "ask more questions of the query workers.",
    )
    max_groundings: int = Field(
        4,
        gt=0,
        le=1000,
        description="Most calls for the facts behind rules that one tenant may have under way in one API process, 1 to "
        "1000; more read more of the database at a time.",
    )
    compare_seconds: float = Field(
        40.0,
        gt=0,
        description="Seconds, above 0, that one comparison of models may ask questions; it then tells of those that "
        "were answered. More compares more facts.",
    )
    query_processes: int = Field(
        2,
        ge=1,
        le=64,
        description="Processes in which one query worker answers, 1 to 64; of two or more, one tenant uses at most all "
        "but one. More answer more queries at a time, and each keeps its models in memory.",
    )
    query_memory_bytes: int = Field(
        0,
        ge=0,
        description="Memory in bytes that one process of a query worker may take before it is ended; more admits larger"
        " models and searches. 0: half of what is free when the worker starts, shared by its processes, but"
        " at least a gigabyte each.",
    )
    model_cache_bytes: int = Field(
        2048 * MIB,
        gt=0,
        description="Memory in bytes, at least 1, in which the processes of one query worker together keep models; more"
        " memory means less reloading.",
    )

    lease_seconds: float = Field(
        30.0,
        gt=0,
        description="Seconds after which the job of a silent worker is started again; must exceed the heartbeat. More "
        "forgives slower workers and restarts lost jobs later.",
    )
    heartbeat_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds, above 0, between two renewals of a job's lease by its worker; more asks the database less"
        " often and must stay below the lease.",
    )
    reconcile_seconds: float = Field(
        10.0,
        gt=0,
        description="Seconds, above 0, between two searches for expired leases and for jobs missing from the queue; "
        "more asks the database less often and finds lost jobs later.",
    )
    relay_seconds: float = Field(
        0.5,
        gt=0,
        description="Seconds, above 0, between two looks for new jobs; more starts jobs later and asks the database "
        "less often.",
    )
    cancel_seconds: float = Field(
        2.0,
        gt=0,
        description="Seconds, above 0, between two looks of a worker whether its job was cancelled; more stops "
        "cancelled jobs later and asks the database less often.",
    )
    checkpoint_seconds: float = Field(
        15.0,
        ge=0,
        description="Least seconds between two checkpoints of a job, from 0; more writes less and loses more work when "
        "a worker is lost.",
    )
    storage_wait_seconds: float = Field(
        3600.0,
        ge=0,
        description="Seconds, from 0, that a job waits for storage that cannot be reached before it fails; more "
        "survives longer outages and keeps its worker for longer.",
    )
    max_queued_jobs: int = Field(
        100,
        ge=1,
        description="Most jobs of one tenant that may wait for a worker, at least 1; more are refused with 429.",
    )
    max_model_bytes: int = Field(
        1024 * MIB,
        gt=0,
        description="Largest model that may be imported, in bytes after unpacking, at least 1; more takes more memory "
        "during an import.",
    )
    max_import_bytes: int = Field(
        512 * MIB,
        gt=0,
        description="Largest archive of a model that may be imported, in bytes, at least 1; more takes more disk during"
        " an import.",
    )
    train_memory_bytes: int = Field(
        0,
        ge=0,
        description="Memory in bytes that one training may use before it is ended; more admits larger trainings. 0: 70 "
        "% of what is free when its process starts, shared by all train workers of the machine.",
    )
    max_attempts: int = Field(
        3,
        ge=1,
        description="Number of lost workers after which a job fails, at least 1; more gives a job that ends its workers"
        " more chances to end others.",
    )
    batch_memory_bytes: int = Field(
        0,
        ge=0,
        description="Memory in bytes that one evaluation or prediction may use before it is ended; more admits larger "
        "models and KBs. 0: a quarter of what is free when its process starts, shared by all batch workers of the "
        "machine, but at least a gigabyte.",
    )
    evaluation_seconds: float = Field(
        3600.0,
        gt=0,
        description="Seconds, above 0, that one evaluation may take; a longer one fails and asks for a `limit`. More "
        "lets one evaluation keep its worker for longer.",
    )
    prediction_seconds: float = Field(
        3600.0,
        gt=0,
        description="Seconds, above 0, that one prediction in bulk may take; one that takes longer ends with the rows "
        "that it has, as `truncated`. More lets one prediction keep its worker for longer.",
    )
    max_prediction_rows: int = Field(
        1_000_000,
        ge=1,
        description="Maximum number of rows of a prediction in bulk, at least 1; one that finds more ends with these, "
        "as `truncated`. More takes more time and storage.",
    )
    result_days: float = Field(
        7.0,
        gt=0,
        description="Days, above 0, for which the rows of a prediction in bulk can be downloaded; then its files are "
        "removed. More takes more storage.",
    )

    url: str = Field("http://127.0.0.1:8000", description="URL of the service that client commands call.")
    key: str = Field("", description="Key that client commands send; empty: none.")

    @model_validator(mode="after")
    def _beats_before_the_lease_ends(self) -> Self:
        if self.heartbeat_seconds >= self.lease_seconds:
            raise ValueError("CTP_HEARTBEAT_SECONDS must be less than CTP_LEASE_SECONDS")
        return self

    @model_validator(mode="after")
    def _every_body_can_be_held(self) -> Self:
        sizes = {
            f"CTP_{name.upper()}": getattr(self, name)
            for name in ("max_json_bytes", "max_tenant_waiting_bytes", "max_waiting_bytes")
        }
        for (smaller, least), (larger, given) in pairwise(sizes.items()):
            if given < least:
                raise ValueError(f"{larger} is {given}, but must be at least {smaller}, which is {least}")
        return self

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir.absolute() / 'ctp.db'}"

    @property
    def artifacts(self) -> str:
        return self.artifacts_url or f"file://{self.data_dir.absolute() / 'artifacts'}"

    @property
    def cache(self) -> Path:
        return Path(self.cache_dir) if self.cache_dir else self.data_dir / "cache"

    def make_data_dir(self) -> None:
        """Makes the data folder, private to this user; a folder that exists keeps its permissions."""
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


@cache
def get_settings() -> Settings:
    """Reads the settings, once per process; raises UserError that names the wrong variable."""
    try:
        return Settings()
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        if not fault["loc"]:
            raise UserError(f"the settings contradict each other ({fault['msg']})") from None
        name = f"CTP_{'_'.join(map(str, fault['loc'])).upper()}"
        raise UserError(f"{name}={fault['input']!r} cannot be used ({fault['msg']})") from None


def settings_table() -> str:
    """Returns the Markdown table of all settings for the README."""
    rows = [
        f"| `CTP_{name.upper()}` | {f'`{field.default}`' if field.default != '' else ''} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])
