"""Scripts on a real sshd: what comes back, what never leaks, and how they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cpudeploy.errors import ConnectError, ConnectionLost, OperationFailed
from cpudeploy.transport import Connection

from .conftest import Sshd, User, until


def gone(pid: int) -> bool:
    """Whether a process ends."""
    return until(lambda: not Path(f"/proc/{pid}").exists())


def test_streams_and_exit_code_come_back_apart(as_root: Connection) -> None:
    done = as_root.run("echo out; echo err >&2; exit 3", deadline_s=20)
    assert (done.rc, done.stdout, done.stderr) == (3, b"out\n", "err\n")


def test_output_without_a_last_newline_is_kept_as_it_is(as_root: Connection) -> None:
    done = as_root.run("printf out; printf err >&2", deadline_s=20)
    assert (done.stdout, done.stderr) == (b"out", "err")


def test_arguments_arrive_as_written(as_root: Connection) -> None:
    value = 'it\'s "$HOME" `id` \\ !x * \n two\tß'
    done = as_root.run('printf %s "$value"', args={"value": value}, deadline_s=20)
    assert done.stdout.decode() == value


def test_an_argument_with_a_bad_name_is_refused(as_root: Connection) -> None:
    with pytest.raises(ValueError, match="x; rm"):
        as_root.run(":", args={"x; rm": ""}, deadline_s=20)


def test_stdin_is_read_by_the_byte_and_then_ends(as_root: Connection) -> None:
    data = bytes(range(256)) * 8192
    done = as_root.run("cat", stdin=data, deadline_s=30)
    assert done.stdout == data


def test_a_script_that_ignores_its_stdin_still_completes(as_root: Connection) -> None:
    done = as_root.run("echo done", stdin=b"x" * 5_000_000, deadline_s=30)
    assert (done.rc, done.stdout) == (0, b"done\n")


def test_without_stdin_a_script_reads_nothing(as_root: Connection) -> None:
    assert as_root.run("cat; echo end", deadline_s=20).stdout == b"end\n"


def test_large_output_on_both_streams_does_not_block(as_root: Connection) -> None:
    done = as_root.run("head -c 10000000 /dev/zero >&2 & head -c 10000000 /dev/zero; wait", deadline_s=60)
    assert (len(done.stdout), len(done.stderr)) == (10_000_000, 10_000_000)


def test_lines_are_told_as_they_come_and_the_last_one_too(as_root: Connection) -> None:
    lines: list[str] = []
    as_root.run("cat; echo; printf end", stdin=b"a\nb\n", deadline_s=20, on_line=lines.append)
    assert lines == ["a", "b", "", "end"]


def test_the_environment_is_plain(as_root: Connection) -> None:
    done = as_root.run('echo "$LC_ALL $PWD $(umask)"; command -v useradd; tty', deadline_s=20)
    assert done.stdout.decode().splitlines() == ["C / 0077", "/usr/sbin/useradd", "not a tty"]


def test_a_script_of_two_hundred_kilobytes_runs_and_is_not_in_any_command_line(
    as_root: Connection,
) -> None:
    padding = "# a line that only takes room\n" * 7000
    script = f"{padding}tr '\\0' ' ' </proc/$$/cmdline | wc -c; echo secret-{'word'}"
    done = as_root.run(script, deadline_s=30)
    size, word = done.stdout.decode().split()
    assert int(size) < 2000
    assert word == "secret-word"


def test_a_syntax_error_runs_nothing(as_root: Connection) -> None:
    done = as_root.run("echo begun\nif", deadline_s=20)
    assert done.rc != 0
    assert done.stdout == b""
    assert "yntax" in done.stderr


def test_background_processes_do_not_hold_the_result_back(as_root: Connection) -> None:
    done = as_root.run("setsid sleep 300 & echo $!", deadline_s=20)
    os.kill(int(done.stdout), signal.SIGKILL)
    assert done.rc == 0


def test_at_the_deadline_the_script_is_ended_and_its_last_line_told(as_root: Connection) -> None:
    lines: list[str] = []
    with pytest.raises(OperationFailed, match=r"did not end within 2 s.*nearly there"):
        as_root.run("echo $$; echo nearly there; sleep 300", deadline_s=2, on_line=lines.append)
    assert gone(int(lines[0]))
    assert as_root.run("echo on", deadline_s=20).stdout == b"on\n"


def test_a_killed_script_is_not_taken_for_a_result(as_root: Connection) -> None:
    with pytest.raises(OperationFailed, match=r"killed on the host.*begun"):
        as_root.run("echo begun; kill -KILL 0", deadline_s=20)


def test_a_connection_that_dies_is_told_with_the_last_line(as_root: Connection) -> None:
    # The parent of the session's leader is sshd's process for this connection.
    script = (
        "echo begun; sleep 1; leader=$(cut -d ' ' -f 6 /proc/$$/stat); "
        "kill -KILL $(cut -d ' ' -f 4 /proc/$leader/stat); sleep 300"
    )
    with pytest.raises(ConnectionLost, match=r"broke.*begun"):
        as_root.run(script, deadline_s=30)
    with pytest.raises(ConnectionLost, match="closed"):
        as_root.run("true", deadline_s=5)


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/bin/tcsh", "/usr/bin/fish"])
def test_any_login_shell_will_do(
    shell: str,
    sshd: Sshd,
    make_user: Callable[..., User],
    open_connection: Callable[..., Connection],
) -> None:
    user = make_user(shell, sudo="{user} ALL=(ALL) NOPASSWD: ALL")
    connection = open_connection(sshd.host(user.name))
    done = connection.run('id -u; cat; echo "$a" >&2', args={"a": "it's"}, stdin=b"in\n", deadline_s=30)
    assert (done.rc, done.stdout, done.stderr) == (0, b"0\nin\n", "it's\n")
    assert connection.root == "sudo"


@pytest.mark.parametrize(
    ("shell", "file", "noise"),
    [
        ("/bin/bash", ".bashrc", "echo welcome; echo warning >&2; printf 'no newline'; set -x\n"),
        ("/bin/bash", ".bashrc", "set -v; export PS4='+ ' SHELLOPTS; set -x; umask 000; cd /tmp\n"),
        ("/bin/tcsh", ".cshrc", "echo welcome\nset echo\n"),
        ("/usr/bin/fish", ".config/fish/config.fish", "echo welcome; echo warning >&2\n"),
    ],
)
def test_noise_of_rc_files_is_not_output_and_gets_no_password(
    shell: str,
    file: str,
    noise: str,
    sshd: Sshd,
    make_user: Callable[..., User],
    open_connection: Callable[..., Connection],
) -> None:
    user = make_user(shell, sudo="{user} ALL=(ALL) NOPASSWD: ALL")
    user.write(file, noise)
    connection = open_connection(sshd.host(user.name), sudo_password="never-to-be-sent")
    done = connection.run("umask; cat; exit 4", deadline_s=30)
    assert (done.rc, done.stdout, done.stderr) == (4, b"0077\n", "")


def test_a_login_shell_that_refuses_is_told(
    sshd: Sshd, make_user: Callable[..., User], open_connection: Callable[..., Connection]
) -> None:
    user = make_user("/usr/sbin/nologin")
    connection = open_connection(sshd.host(user.name))
    with pytest.raises(ConnectError, match=r"login shell ended at once.*not available"):
        connection.run("true", deadline_s=20)


def test_a_shell_that_never_gets_ready_meets_the_deadline(
    sshd: Sshd, make_user: Callable[..., User], open_connection: Callable[..., Connection]
) -> None:
    user = make_user("/bin/bash")
    user.write(".bashrc", "echo waiting for input; cat\n")
    connection = open_connection(sshd.host(user.name))
    with pytest.raises(OperationFailed, match=r"no shell was ready within 2 s.*waiting for input"):
        connection.run("true", deadline_s=2)
