"""`python -m tests.lab build|up|down|status`: the lab by hand."""

from __future__ import annotations

import argparse
import sys

from tests.lab import engine
from tests.lab.lab import DEMO, Lab
from tests.lab.shell import LabError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; 0 when it worked."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parser.add_argument("command", choices=["build", "up", "down", "status"])
    parser.add_argument("--name", default=DEMO[0], help="which lab (default: %(default)s)")
    parser.add_argument("--subnet", help="its network, inside " + engine.ADDRESSES)
    options = parser.parse_args(arguments)
    try:
        lab = Lab(options.name, options.subnet)
        if options.command == "build":
            lab.build()
        elif options.command == "down":
            lab.down()
        else:
            if options.command == "up":
                lab.up()
            if not lab.running:
                print(f"lab {lab.name} is not running")
                return 1
            print(describe(lab), end="")
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


def describe(lab: Lab) -> str:
    """What runs where, and how to get in."""
    lines = [f"lab {lab.name} on {lab.subnet}, state in {lab.state}"]
    for host in lab.hosts.values():
        spec = host.spec
        limits = " ".join(spec.limits())
        lines.append(f"  {host.name:<10} {host.address:<14} {spec.suite}, sudo {spec.sudo} {limits}".rstrip())
    lines += [
        f"  registry   {lab.registry.tls:<14} TLS, user {lab.registry.user}; see ca.pem, registry-password",
        f"  registry   {lab.registry.plain:<14} plain HTTP",
        f"  hub        {lab.hub.url}",
        f"  engine     docker --host unix://{engine.socket()}",
        f"  ssh -F none -i {lab.key} -o UserKnownHostsFile={lab.known_hosts} ops@ADDRESS",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
