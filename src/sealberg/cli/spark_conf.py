"""`sealberg spark-conf`: what spark-submit and pyspark must be given for encrypted tables."""

from __future__ import annotations

import click

from sealberg.cli.console import json_option, print_json


@click.command("spark-conf")
@click.option(
    "--catalog",
    metavar="NAME",
    help="Of a catalog in PyIceberg's configuration, and in SQL; the default one if left out.",
)
@json_option
def spark_conf(*, catalog: str | None, as_json: bool) -> None:
    """Print the options that spark-submit and pyspark need for encrypted tables.

    Use them as `spark-submit $(sealberg spark-conf) job.py`, and call sealberg.spark.install(spark) in the job.
    Nothing secret is among them: the job reads the properties of the catalog from PyIceberg's configuration.
    """
    from sealberg.catalogs.load import LOCAL, configured_catalogs, default_catalog
    from sealberg.spark.jar import find_jar
    from sealberg.spark.sessions import settings

    catalog = catalog or default_catalog()
    known = configured_catalogs()
    if catalog.lower() not in (*known, LOCAL):
        # It may be configured where the job runs, so that this is no error.
        names = ", ".join(known) or "none"
        click.echo(f"warning: no catalog {catalog} is configured on this machine (configured: {names})", err=True)
    found = settings(catalog, str(find_jar()))
    if as_json:
        print_json(found)
        return
    click.echo(f"--jars {found.pop('spark.jars')}")
    for name, value in found.items():
        click.echo(f"--conf {name}={value}")
