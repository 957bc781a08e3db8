"""`sealberg verify-record FILE.json`: whether the record of an erase or a shred is as it was sealed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from sealberg.cli.console import json_option
from sealberg.cli.job import catalog_option, show


@click.command("verify-record")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--key", metavar="KEY", help="The key of the KMS that must have sealed it; default: any.")
@click.option("--value", metavar="VALUE", help="The value, or the filter, that the record of an erase must be about.")
@catalog_option
@json_option
@click.pass_context
def verify_record(
    ctx: click.Context, file: Path, key: str | None, value: str | None, catalog: str | None, *, as_json: bool
) -> None:
    """Check that the record of an erase or a shred is as it was sealed, with the KMS of the catalog that it
    names, or of --catalog. The page beside the record shows its SHA-256; only the record itself is checked.

    Exit code 0: genuine. 1: changed, sealed under another key, or about another value. 2: not checked: it has
    no seal, or the KMS does not open the seal.
    """
    from sealberg.catalogs.load import catalog_properties
    from sealberg.jobs.erase_record import is_about
    from sealberg.jobs.record import check, read_file
    from sealberg.keys.kms.client import client_from_properties

    document = read_file(file)
    _, properties = catalog_properties(catalog or str(document.get("catalog")))
    with client_from_properties(properties) as kms:
        result = check(document, kms, key_id=key)
    if value is not None and not is_about(document, value):
        result = replace(result, findings=(*result.findings, "the record is not about this value"))
    show(result, as_json=as_json)
    ctx.exit(result.exit_code)
