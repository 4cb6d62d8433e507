"""`make demo`: the main job, start to end, on real hosts of a lab, printed as a person would type it.

Bare Debian 12 and 13 hosts become an LLM service; the second plan is empty; one changed line is shown and
applied. Every command's exit code is checked, so a demo that ends well has shown all of it.
"""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
import time
from pathlib import Path
from string import Template

from tests.lab import llama
from tests.lab.lab import DEMO, Lab
from tests.lab.shell import LabError, write_whole

QUESTION = "Name three colours."


def main() -> int:
    """Run the demo; 0 when everything was as it must be."""
    started = time.monotonic()
    try:
        lab = Lab(*DEMO)
        lab.down()  # a demo starts from bare hosts
        lab.up()
        folder = write_inventory(lab)
        say(
            f"lab up after {time.monotonic() - started:.0f} s: {', '.join(lab.hosts)} have sshd and no Docker"
        )
        story(folder)
    except (LabError, Unexpected) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    say(f"done after {time.monotonic() - started:.0f} s; the hosts go on serving until: make demo-down")
    say(f"the manifest and its secrets are in {folder}; to try more, such as `cpudeploy explain`:")
    print(f'PATH="{Path(sys.executable).parent}:$PATH"; cd {folder}')
    return 0


class Unexpected(RuntimeError):
    """A command of the demo did not end as it must."""


def write_inventory(lab: Lab, name: str = "inventory.yaml") -> Path:
    """The demo's manifest with what it refers to, in a folder of the lab's state; the folder."""
    folder = lab.state
    reference = f"{llama.IMAGE}@{lab.registry.push(llama.IMAGE, llama.IMAGE.partition('/')[2], 'tls')}"
    values = {
        "tls": lab.registry.tls,
        "plain": lab.registry.plain,
        "registry_user": lab.registry.user,
        "hub": lab.hub.url,
        "image": reference,
        **{host: lab.hosts[host].address for host in lab.hosts},
    }
    text = Template(Path(__file__).with_name("demo.yaml").read_text()).substitute(values)
    (folder / name).write_text(text)
    write_ssh_config(lab)
    make_key_file(folder)
    return folder


def make_key_file(folder: Path) -> None:
    """An API key for the models of a demo."""
    key = folder / "api-key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(secrets.token_urlsafe(24))


def write_ssh_config(lab: Lab) -> Path:
    """An ssh configuration with the lab's key and host keys, as a user's own would have them."""
    config = lab.state / "ssh_config"
    write_whole(
        config,
        f"Host *\n  IdentityFile {lab.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {lab.known_hosts}\n",
    )
    return config


def story(folder: Path) -> None:
    """The commands, each with the exit code it must have."""
    run(folder, "validate")
    run(folder, "facts")
    run(folder, "plan", "--detailed-exitcode", code=2)
    run(folder, "apply")
    run(folder, "plan", "--detailed-exitcode", code=0)
    run(folder, "chat", "smollm2", QUESTION, "--max-tokens", "48")
    say("one line of the manifest changes: context 2048 → 4096")
    manifest = folder / "inventory.yaml"
    manifest.write_text(manifest.read_text().replace("context: 2048", "context: 4096"))
    run(folder, "plan", "--detailed-exitcode", code=2)
    run(folder, "apply")
    run(folder, "plan", "--detailed-exitcode", code=0)
    run(folder, "status")


def run(folder: Path, *arguments: str, code: int = 0) -> None:
    """One cpudeploy command in the manifest's folder, as its user sees it."""
    print(f"\n{ink('1', f'$ cpudeploy {shlex.join(arguments)}')}", flush=True)
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "cpudeploy", *arguments], cwd=folder, env=environment(), check=False
    )
    print(f"  (exit {done.returncode}, {time.monotonic() - began:.1f} s)", flush=True)
    if done.returncode != code:
        raise Unexpected(
            f"`cpudeploy {shlex.join(arguments)}` ended with {done.returncode}, it must be {code}"
        )


def environment() -> dict[str, str]:
    """Ours, with this checkout's package first."""
    root = str(Path(__file__).parents[2])
    return {**os.environ, "PYTHONPATH": root}


def say(text: str) -> None:
    print(f"\n{ink('2', f'# {text}')}", flush=True)


def ink(style: str, text: str) -> str:
    """`text` in an ANSI style; plain in a file or a pipe."""
    return f"\033[{style}m{text}\033[0m" if sys.stdout.isatty() else text


if __name__ == "__main__":
    sys.exit(main())
