"""`cpudeploy schema`: JSON Schemas for editors and for those who read what cpudeploy writes."""

from __future__ import annotations

import json

import click

from ..manifest.published import SCHEMAS, published
from .terminal import stdout


@click.command("schema")
@click.argument("document", type=click.Choice(SCHEMAS), default=SCHEMAS[0], metavar="[DOCUMENT]")
def command(document: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a document: the manifest's, if none is named.

    \b
    inventory  the manifest
    include    a file that a manifest includes
    playbook   a playbook
    plan       what `plan --format json` prints and `plan -o` saves
    facts      what one host told: an entry of what `facts --format json` prints
    resolved   what registries and Hubs told
    endpoints  what `endpoints --format json` prints
    outcome    what came of an apply, rollback, prune or destroy: the last line of `--format json`
    event      what happens meanwhile: every other line of it
    error      why a command did nothing: what `--format json` prints then
    """
    stdout().write(json.dumps(published(document), indent=2, ensure_ascii=False))
