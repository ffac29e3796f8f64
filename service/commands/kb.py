"""`ctp kb`: uploads, shows, exports and deletes knowledge bases."""

from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from ctp_client import Kb
from service.commands.console import (
    Holdout,
    Json,
    Key,
    Limit,
    Url,
    connected,
    err,
    held_out,
    name,
    out,
    print_json,
    short,
    table,
)
from service.commands.extras import needs

kb = typer.Typer(help="Knowledge bases: upload, show, export, delete.", no_args_is_help=True)
Reference = Annotated[str, typer.Argument(metavar="KB", help="Id or name of a KB.")]


@kb.command("list")
def list_kbs(url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """List the KBs that you can use: your own and the samples."""
    with connected(url, key) as client:
        kbs = list(client.kbs.list())
    if as_json:
        print_json(kbs)
        return
    rows = [
        (
            name(k.name, "bold"),
            k.kind,
            f"{k.num_facts:,}",
            f"{k.num_entities:,}",
            f"{k.num_predicates:,}",
            "sample" if k.sample else "",
        )
        for k in kbs
    ]
    columns = ("name", "kind", "facts", "entities", "predicates", "")
    out.print(table(columns, rows, columns[2:5]))


@kb.command()
def show(kb: Reference, url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """Show the size of a KB, its warnings and its most frequent predicates."""
    with connected(url, key) as client:
        found = client.kbs.get(kb)
        predicates = sorted(client.kbs.predicates(kb), key=lambda p: -p.num_facts)
    if as_json:
        print_json(found)
        return
    _describe(found)
    rows = [(name(p.name), f"{p.num_facts:,}") for p in predicates[:20]]
    out.print()
    out.print(table(("predicate", "facts"), rows, ("facts",)))
    if len(predicates) > len(rows):
        out.print(f"and {len(predicates) - len(rows)} more", style="dim")


@kb.command()
def presets(
    kb: Reference,
    method: Annotated[str | None, typer.Option(help="Show all settings for this method.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show all settings and what each of them means.")] = False,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Show the methods that can be trained on a KB, and the settings of each preset."""
    with connected(url, key) as client:
        found = client.presets(kb, method)
    if as_json:
        print_json(found)
        return
    configs = [_flat(preset.config) for preset in found]
    # Presets of several methods have several sets of settings: all of them, each once.
    settings = dict.fromkeys(key for config in configs for key in config) if method or explain else ("method",)
    rows = [
        [name(setting), *(name(short(config[setting]) if setting in config else "") for config in configs)]
        for setting in settings
    ]
    rows.append([name("cost"), *(name(str(preset.forecast or "")) for preset in found)])
    out.print(table(("", *(preset.name for preset in found)), rows))
    texts = {preset.name: preset.text for preset in found} | found[0].method_texts
    out.print()
    out.print(table(("", ""), [(name(word), name(text, "dim")) for word, text in texts.items()]))
    if explain:
        meaning = {setting: text for preset in found for setting, text in preset.setting_texts.items()}
        meant = [(name(setting, "cyan"), name(text)) for setting, text in meaning.items()]
        out.print()
        out.print(table(("setting", "what it means"), meant))
    else:
        out.print()
        out.print("--explain says what each setting means", style="dim")


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Flattens the settings of a hybrid's parts to `part.setting`."""
    parts = {
        name: value if isinstance(value, dict) and "method" in value else {"": value} for name, value in config.items()
    }
    return {f"{name}.{inner}".rstrip("."): value for name, part in parts.items() for inner, value in part.items()}


@kb.command()
def upload(
    name_: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new KB.")],
    file: Annotated[Path | None, typer.Argument(exists=True, dir_okay=False, help="All facts in one file.")] = None,
    train: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Facts to train on.")] = None,
    valid: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Facts to validate on.")] = None,
    test: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Facts to test on.")] = None,
    kind: Annotated[str | None, typer.Option(help="facts or graphs.")] = None,
    format: Annotated[str | None, typer.Option(help="Format, else recognised; see `ctp kb formats`.")] = None,
    holdout: Holdout = None,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Upload a KB from a file, or from files by split."""
    splits = {"file": file, "train": train, "valid": valid, "test": test}
    files = {split: path for split, path in splits.items() if path is not None}
    if not files:
        raise typer.BadParameter("name a FILE, or --train with optional --valid and --test")
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(), console=err, transient=True, disable=as_json
    )
    with connected(url, key) as client, bar:

        def opened(path: Path) -> object:
            return bar.open(path, "rb", description=path.name)

        made = client.kbs.upload(name_, files, kind, format, held_out(holdout), open_file=opened)
    if as_json:
        print_json(made)
    else:
        _describe(made)


@kb.command()
@needs("service", "worker")
def generate(
    to: Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="TSV file for the facts.")],
    facts: Annotated[int, typer.Option(min=100, help="Facts that the KB states, in all splits.")] = 20_000,
    entities: Annotated[
        int | None, typer.Option(min=40, help="Entities, about; default: a tenth of the facts.")
    ] = None,
    predicates: Annotated[int, typer.Option(min=3, help="Predicates, about.")] = 25,
    valid: Annotated[
        Path | None, typer.Option(dir_okay=False, help="File for facts to validate on, else in FILE.")
    ] = None,
    test: Annotated[Path | None, typer.Option(dir_okay=False, help="File for facts to test on, else in FILE.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same KB.")] = 0,
) -> None:
    """Write a KB whose rules are known, to try things out on, and print the rules, which the KB does not state."""
    from ctp_core.benchmarks.ladder.synthetic import Shape, generate  # noqa: PLC0415
    from ctp_core.kb.formats.tsv import write_tsv  # noqa: PLC0415

    made = generate(Shape(facts, predicates, num_entities=entities, seed=seed))
    files: dict[Path, list[str]] = {}
    for split, file in {"train": to, "valid": valid or to, "test": test or to}.items():
        files.setdefault(file, []).extend(write_tsv(made.kb.facts(split)))
    for file, lines in files.items():
        file.write_text("".join(lines))
        err.print(name(f"wrote {file}: {len(lines):,} facts"))
    for rule in made.rules:
        out.print(name(f"{rule.confidence:.2f}  {rule.text}"))


@kb.command()
def formats(url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """The formats that KBs are uploaded from and exported to."""
    with connected(url, key) as client:
        found = client.kbs.formats()
    if as_json:
        print_json(found)
        return
    rows = [
        (name(f.name, "bold"), f.kind, ", ".join(f.suffixes), "" if f.writable else "upload only", f.text)
        for f in found
    ]
    out.print(table(("name", "kind", "files", "", "what it is"), rows))


@kb.command()
def facts(
    kb: Reference,
    subject: Annotated[str | None, typer.Option("--subject", "-s")] = None,
    predicate: Annotated[str | None, typer.Option("--predicate", "-p")] = None,
    object: Annotated[str | None, typer.Option("--object", "-o")] = None,
    limit: Limit = 50,
    url: Url = None,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """List the facts of a KB, filtered by subject, predicate or object."""
    with connected(url, key) as client:
        found = list(islice(client.kbs.facts(kb, subject, predicate, object, limit=limit), limit))
    if as_json:
        print_json(found)
        return
    rows = [(name(f.subject), name(f.predicate, "cyan"), name(f.object), f.split) for f in found]
    out.print(table(("subject", "predicate", "object", "split"), rows))


@kb.command()
def export(
    kb: Reference,
    to: Annotated[Path, typer.Argument(help="File to write, or a folder for one file per split.")],
    format: Annotated[
        str | None, typer.Option(help="Format (see `ctp kb formats`); else as the file's suffix says.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="train, valid or test; default: all of them in one file.")] = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Write a KB to a file, or one file per split to a folder."""
    with connected(url, key) as client:
        if to.is_dir() and split is None:
            for file in client.kbs.export_splits(kb, to, format):
                err.print(name(f"wrote {file}"))
            return
        client.kbs.export(kb, to, format, split)
        splits = [split] if split else list(client.kbs.get(kb).splits)
    err.print(name(f"wrote {to}{_joined(splits)}"))


def _joined(splits: list[str]) -> str:
    if len(splits) == 1:
        return ""
    return f": {', '.join(splits)} one after the other; name a folder to keep them apart, or one with --split"


@kb.command()
def delete(kb: Reference, url: Url = None, key: Key = None) -> None:
    """Delete a KB that no model uses."""
    with connected(url, key) as client:
        client.kbs.delete(kb)
    err.print(name(f"deleted {kb}"))


def _describe(found: Kb) -> None:
    counts = f"{found.num_facts:,} facts, {found.num_entities:,} entities, {found.num_predicates:,} predicates"
    out.print(name(found.name, "bold"), f" {found.kind}, {counts}", sep="")
    if len(found.splits) > 1:
        out.print("splits: " + ", ".join(f"{split} {count:,}" for split, count in found.splits.items()), style="dim")
    for warning in found.warnings:
        out.print(name(f"! {warning}", "yellow"))
