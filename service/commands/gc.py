"""`ctp gc`: removes files that nothing refers to."""

from typing import Annotated

import typer

from service.commands.extras import needs
from service.settings import UserError, get_settings


@needs("service")
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    min_age: Annotated[float, typer.Option(help="Minimum age in seconds of files to remove.", min=0)] = 3600.0,
) -> None:
    """Remove files that no KB, model, checkpoint or job refers to, and list KBs and models whose files are missing.

    Files that the service did not write are listed as foreign and are kept.
    """
    from service.db.engine import Database  # noqa: PLC0415
    from service.db.reach import reaching  # noqa: PLC0415
    from service.files import store_owner  # noqa: PLC0415
    from service.files.garbage import find_garbage  # noqa: PLC0415
    from service.files.storage import StorageError  # noqa: PLC0415
    from service.files.stores import make_storage  # noqa: PLC0415

    settings = get_settings()
    storage = make_storage(settings)
    try:
        with reaching(settings.database):
            database = Database(settings.database)
            store_owner.check(database, storage)
            findings = find_garbage(database, storage, min_age)
        for entry in findings.orphans:
            if not dry_run:
                storage.delete(entry.key)
            typer.echo(f"{'orphan' if dry_run else 'removed'}\t{entry.num_bytes}\t{entry.key}")
    except StorageError as error:
        raise UserError(str(error)) from error
    for entry in findings.foreign:
        typer.echo(f"foreign\t{entry.num_bytes}\t{entry.key}")
    for key in findings.missing:
        typer.echo(f"missing\t\t{key}")
    total = sum(entry.num_bytes for entry in findings.orphans)
    typer.echo(f"{len(findings.orphans)} orphans with {total} bytes, {len(findings.missing)} files missing", err=True)
    raise typer.Exit(1 if findings.missing else 0)
