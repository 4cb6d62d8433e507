"""`make demo-engines`: vLLM and llama.cpp side by side on one bare host of a lab, printed as a person would type it.

Both serve the same small model on cores of their own, both answer, and the second plan is empty. Every command's
exit code is checked. It needs 5 GiB of free memory and 10 GiB of disk.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from string import Template

from tests.lab import llama, vllm
from tests.lab.demo import QUESTION, Unexpected, make_key_file, run, say, write_ssh_config
from tests.lab.hosts import HostSpec
from tests.lab.lab import ENGINES, Lab
from tests.lab.shell import LabError

HOST = HostSpec("deb13", "trixie")
"""Docker 20.10 of Debian 12 can't unpack the layer: zstd is read from 23.0 on."""


def main() -> int:
    """Run the demo; 0 when everything was as it must be."""
    started = time.monotonic()
    try:
        lab = Lab(*ENGINES)
        lab.down()  # a demo starts from bare hosts
        lab.up([HOST])
        folder = write_inventory(lab)
        say(f"lab up after {time.monotonic() - started:.0f} s: {HOST.name} has sshd and no Docker")
        story(folder)
    except (LabError, Unexpected) as error:
        print(f"demo-engines: {error}", file=sys.stderr)
        return 1
    say(f"done after {time.monotonic() - started:.0f} s; the host goes on serving until: make demo-down")
    say(f"the manifest and its secrets are in {folder}")
    print(f'PATH="{Path(sys.executable).parent}:$PATH"; cd {folder}')
    return 0


def write_inventory(lab: Lab) -> Path:
    """The demo's manifest with what it refers to, in a folder of the lab's state; the folder."""
    vllm.serve_models(lab, vllm.SMOLLM2)
    values = {
        "plain": lab.registry.plain,
        "hub": lab.hub.url,
        "llama": llama.IMAGE,
        "vllm": f"{vllm.IMAGE}@{vllm.publish(lab)}",
        HOST.name: lab.hosts[HOST.name].address,
    }
    text = Template(Path(__file__).with_name("demo_engines.yaml").read_text()).substitute(values)
    (lab.state / "inventory.yaml").write_text(text)
    write_ssh_config(lab)
    make_key_file(lab.state)
    return lab.state


def story(folder: Path) -> None:
    """The commands, each with the exit code it must have."""
    run(folder, "validate")
    run(folder, "plan", "--detailed-exitcode", code=2)
    run(folder, "explain")
    run(folder, "apply")
    run(folder, "chat", "smollm2-vllm", QUESTION, "--max-tokens", "32")
    run(folder, "chat", "smollm2-llama", QUESTION, "--max-tokens", "32")
    run(folder, "plan", "--detailed-exitcode", code=0)
    run(folder, "status")


if __name__ == "__main__":
    sys.exit(main())
