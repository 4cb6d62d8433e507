"""The command line as a user meets it: exit codes, one clear error, nothing heavy where nothing is done."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cpudeploy.cli.main import COMMANDS
from tests.ready import Command

ROOT = Path(__file__).parents[2]
GOOD = """\
version: 1
name: rag
hosts: {one: {address: 192.0.2.1}}
backends: {llama: {playbook: llama-cpp, image: "ghcr.io/ggml-org/llama.cpp:server-b9000"}}
models:
  m: {source: {huggingface: org/name}, backend: llama, on: [one], port: 8100}
"""


def cpudeploy(*arguments: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    if any(name.startswith("PYTHON") for name in env):  # read when Python itself starts
        return in_shell(shlex.join(arguments), cwd, **env)
    # Wide, so that no sentence a test looks for is wrapped: a test runner may set a narrow one.
    process = Command(arguments, cwd, {**os.environ, "COLUMNS": "240", "PYTHONPATH": str(ROOT), **env})
    out, err = process.communicate(120)
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(process.args, process.wait(), out, err)


def in_shell(words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command line with redirections, in a process that begins with nothing."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec '{sys.executable}' -m cpudeploy {words}"],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_version_loads_nothing_heavy():
    code = (
        "import sys\n"
        "sys.argv = ['cpudeploy', '--version']\n"
        "from cpudeploy.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'paramiko', 'fabric', 'httpx', 'jinja2', 'jsonschema', 'rich', 'yaml'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["cpudeploy, version 0.1.0", "[]"]


def test_the_help_lists_each_command_once():
    listed = cpudeploy("--help").stdout.partition("Commands:\n")[2]
    names = [line.split()[0] for line in listed.splitlines()]
    assert "recommend" in names
    assert len(names) == len(set(names))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str):
    done = cpudeploy(command, "--help")
    assert done.returncode == 0
    assert "Usage:" in done.stdout


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "schema"])
def test_every_command_takes_the_manifest_by_its_option(tmp_path: Path, command: str):
    others = {"logs": ["m"], "chat": ["m", "hello"]}.get(command, [])
    done = cpudeploy(command, *others, "-i", "nowhere.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nowhere.yaml: there is no such file" in done.stderr


ONLY_THE_MANIFEST = [
    *("validate", "facts", "plan", "apply", "status", "endpoints"),
    *("history", "prune", "destroy", "unlock"),
]


@pytest.mark.parametrize("command", ONLY_THE_MANIFEST)
def test_a_command_with_nothing_else_to_name_takes_it_as_its_argument_too(tmp_path: Path, command: str):
    done = cpudeploy(command, "nowhere.yaml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "nowhere.yaml: there is no such file" in done.stderr
    twice = cpudeploy(command, "nowhere.yaml", "-i", "other.yaml", cwd=tmp_path)
    assert twice.returncode == 64
    assert "nowhere.yaml" in twice.stderr and "other.yaml" in twice.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["aply"], "Did you mean apply?"),
        (["plan", "--formt", "json"], "--format"),
        (["plan", "--format", "yaml"], "yaml"),
        (["chat", "m"], "PROMPT"),
        (["plan", "--limit", "tow"], "choose from one"),
    ],
)
def test_usage_errors_exit_64_and_say_what_would_be_right(tmp_path: Path, arguments: list[str], says: str):
    (tmp_path / "inventory.yaml").write_text(GOOD)
    done = cpudeploy(*arguments, cwd=tmp_path)
    assert done.returncode == 64
    assert says in done.stderr


def test_all_problems_of_a_manifest_are_told_at_once_with_their_place(tmp_path: Path):
    (tmp_path / "inventory.yaml").write_text(GOOD.replace("port: 8100", "port: 99999, contxt: 1"))
    done = cpudeploy("validate", cwd=tmp_path)
    assert done.returncode == 1
    assert "inventory.yaml:6:" in done.stderr
    assert "contxt" in done.stderr and "context" in done.stderr
    assert "99999" in done.stderr or "port" in done.stderr


def test_a_valid_manifest_is_said_to_be_valid(tmp_path: Path):
    (tmp_path / "inventory.yaml").write_text(GOOD)
    done = cpudeploy("validate", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "valid" in done.stdout


def test_what_was_written_by_hand_and_harms_is_told_with_its_place(tmp_path: Path):
    (tmp_path / "inventory.yaml").write_text(
        GOOD.replace("port: 8100", "port: 8100, context: 4096, args: [--ctx-size=8192]")
    )
    done = cpudeploy("validate", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert first.startswith("inventory.yaml:6:")
    assert "warning: `--ctx-size=8192` wins over `context: 4096`" in first
    assert "valid" in last


def test_a_missing_manifest_is_one_clear_error(tmp_path: Path):
    done = cpudeploy("plan", "nowhere.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "nowhere.yaml" in done.stderr


@pytest.mark.parametrize(("command", "code"), [(["validate"], 1), (["plan", "--help"], 1), (["apply"], 4)])
def test_output_that_cannot_be_written_is_one_line_and_ends_no_apply(
    tmp_path: Path, command: list[str], code: int
):
    (tmp_path / "inventory.yaml").write_text(GOOD.replace("192.0.2.1", "127.0.0.1, port: 1"))
    done = in_shell(f"{' '.join(command)} >/dev/full", tmp_path)
    assert (done.returncode, done.stderr) == (code, "cannot write the output: No space left on device\n")


@pytest.mark.parametrize(("command", "code"), [("plan --nope", 64), ("nope", 64), ("validate nowhere", 1)])
def test_the_code_of_a_mistake_counts_also_where_nobody_can_be_told(tmp_path: Path, command: str, code: int):
    assert in_shell(f"{command} 2>/dev/full", tmp_path).returncode == code


@pytest.mark.parametrize("command", ["plan >&-", "apply >&-", "plan <&- >&- 2>&-", "destroy <&-"])
def test_streams_that_are_closed_do_not_matter(tmp_path: Path, command: str):
    (tmp_path / "inventory.yaml").write_text(GOOD.replace("192.0.2.1", "127.0.0.1, port: 1"))
    assert in_shell(command, tmp_path).returncode == 4


def test_a_closed_stdin_is_nobody_who_could_be_asked():
    code = (
        "import sys\nfrom cpudeploy.cli.output import open_output\nopen_output()\nprint(sys.stdin.isatty())"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec '{sys.executable}' -c '{code}' <&-"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"False\n"


def test_a_prompt_that_is_no_text_is_told(tmp_path: Path):
    (tmp_path / "inventory.yaml").write_text(GOOD)
    done = cpudeploy("chat", "m", "a\udcff", cwd=tmp_path)
    assert done.returncode == 64
    assert "the prompt must be UTF-8 text" in done.stderr


def test_the_wheel_carries_playbooks_and_schemas(tmp_path: Path):
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "build", "-q", "--wheel", "-o", tmp_path], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("playbooks", "schemas"):
        for file in (ROOT / folder).iterdir():
            assert f"cpudeploy/data/{folder}/{file.name}" in names
    scripts = {str(path.relative_to(ROOT)) for path in (ROOT / "cpudeploy").rglob("*.sh")}
    assert scripts <= names


@pytest.mark.parametrize(
    "inventory", sorted((ROOT / "inventories").glob("*.yaml")), ids=lambda path: path.stem
)
def test_every_example_inventory_is_valid(inventory: Path):
    assert cpudeploy("validate", str(inventory)).returncode == 0
