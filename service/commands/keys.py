"""`ctp keys`: makes, lists and revokes API keys."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from service.commands.extras import needs
from service.keys.roles import ROLE_TEXTS, Role
from service.settings import get_settings

if TYPE_CHECKING:
    from service.db.engine import Database

keys = typer.Typer(help="Make, list and revoke the keys of the API.", no_args_is_help=True)


@keys.command()
@needs("service")
def create(
    role: Annotated[
        str, typer.Option(help="; ".join(f"{role.name}: {text}" for role, text in ROLE_TEXTS.items()) + ".")
    ] = Role.write.name,
    tenant: Annotated[str, typer.Option(help="Tenant whose KBs, models and jobs the key gives access to.")] = "default",
    label: Annotated[str, typer.Option(help="A note on what the key is for.")] = "",
) -> None:
    """Make a key and print it; only a hash is stored, so it cannot be shown again."""
    from service.errors import ServiceError  # noqa: PLC0415
    from service.keys import service  # noqa: PLC0415

    try:
        token = service.create(_database(), tenant, role, label)
    except ServiceError as error:
        raise typer.BadParameter(error.detail) from None
    typer.echo(str(token))
    # There may be several services: the settings and the folder choose one here, not CTP_URL.
    typer.echo(f"for the service on {_shown(get_settings().database)}", err=True)


@keys.command("list")
@needs("service")
def list_keys() -> None:
    """List the keys: their prefixes, never their secrets."""
    from service.http.timestamps import from_seconds  # noqa: PLC0415
    from service.keys import repository  # noqa: PLC0415

    table = Table("prefix", "tenant", "role", "label", "made", "revoked")
    with _database().read() as session:
        for key in repository.listing(session):
            made, revoked = (
                from_seconds(t).isoformat(timespec="seconds") if t else "" for t in (key.created_at, key.revoked_at)
            )
            table.add_row(key.prefix, key.tenant, key.role, key.label, made, revoked)
    Console(soft_wrap=True).print(table)


@keys.command()
@needs("service")
def revoke(key: Annotated[str, typer.Argument(help="The prefix of the key, or the whole key.")]) -> None:
    """Revoke a key; the service refuses it within two seconds."""
    from service.errors import ServiceError  # noqa: PLC0415
    from service.keys import service  # noqa: PLC0415

    try:
        service.revoke(_database(), key)
    except ServiceError as error:
        raise typer.BadParameter(error.detail) from None


def _shown(database_url: str) -> str:
    from sqlalchemy import make_url  # noqa: PLC0415

    return make_url(database_url).render_as_string(hide_password=True)


def _database() -> "Database":
    """Opens the database and migrates it, so that a key can be made before the first start."""
    from service.db.engine import Database  # noqa: PLC0415
    from service.db.migrate import migrate  # noqa: PLC0415
    from service.db.reach import reaching  # noqa: PLC0415

    settings = get_settings()
    with reaching(settings.database):
        if not settings.database_url:
            settings.make_data_dir()
        database = Database(settings.database)
        migrate(database.engine)
    return database
