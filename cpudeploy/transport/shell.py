"""How a script reaches a shell with root, said as text: pure, knows no channel.

In: a script, its arguments, how root may be had. Out: a command line, the bytes to send once the
far end says it is ready, and what its words mean. The dialogue:

1. The command line goes to whatever login shell there is (sh, csh, fish …), so it is simple words in
   single quotes. It starts `sudo` where we are not root.
2. The shell that has root writes a ready mark to both streams. Whatever came before (banners, rc
   files, sudo's lecture) is noise.
3. Only then is the script sent, and read by length. So nothing of ours can land in a wrong place.
   The password goes out only when sudo's prompt is the last thing on stderr: with any other rule it
   would be read by a shell when sudo asks for none.

The marks are sent in two halves and joined over there, so that no echo of the command line (`set -x`
in an rc file) can look like one.
"""

from __future__ import annotations

import re
import secrets as random
from collections.abc import Mapping
from dataclasses import dataclass

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# $1 $2: halves of the mark, $3: bytes of script to read, $4: the reader below.
_BECOME = (
    'set +x; echo "$1$2.login" >&2; '
    'if test "$(id -u)" = 0; then exec sh -c "$4" sh root "$1" "$2" "$3"; fi; '
    'exec sudo -S -H -p "$1$2.password" -- sh -c "$4" sh sudo "$1" "$2" "$3"'
)
_STAY = (
    'set +x; echo "$1$2.login" >&2; '
    'if test "$(id -u)" = 0; then exec sh -c "$4" sh root "$1" "$2" "$3"; fi; '
    'exec sh -c "$4" sh none "$1" "$2" "$3"'
)
# The script travels through stdin into a variable-free eval: never in argv, no file, no size limit.
_READER = (
    "umask 077; cd /; unset ENV BASH_ENV CDPATH LANGUAGE; LC_ALL=C; LANG=C; "
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export LC_ALL LANG PATH; "
    'echo "$2$3.ready $1"; echo "$2$3.ready $1" >&2; eval "$(head -c "$4")"'
)

# Left: says who it is, passes stdin on by length, then waits for the channel to close and ends the
# whole group if that comes before the script's own end. Right: the script, then its exit code.
_SUPERVISED = """{given}{{
sh -c 'echo "$PPID"'
{feed}exec >/dev/null 2>&1
while read -r _; do :; done
kill -TERM 0
}} | {{
read -r cpudeploy_feeder
(
{assignments}{script}
)
set -- "$?"
echo '{mark}.end '"$1"
echo '{mark}.end' >&2
kill "$cpudeploy_feeder"
exit "$1"
}}
"""


def quote(text: str) -> str:
    """`text` as one word of POSIX sh."""
    if "\0" in text:
        raise ValueError("a shell word can't hold a NUL byte")
    return "'" + text.replace("'", "'\\''") + "'"


def assignments(args: Mapping[str, str]) -> str:
    """`args` as lines `NAME='value'`."""
    for name in args:
        if not _NAME.match(name):
            raise ValueError(f"not a shell variable name: {name!r}")
    return "".join(f"{name}={quote(value)}\n" for name, value in args.items())


@dataclass(frozen=True)
class Dialogue:
    """One conversation: what is sent, and the marks that will come back."""

    command: str
    payload: bytes
    mark: str
    stdin: bytes = b""

    @property
    def login(self) -> bytes:
        """On stderr: the login shell works, root is asked for next."""
        return f"{self.mark}.login\n".encode()

    @property
    def prompt(self) -> bytes:
        """On stderr, as its last bytes: sudo waits for a password."""
        return f"{self.mark}.password".encode()

    @property
    def ready(self) -> bytes:
        """On both streams, followed by how root was had and a newline: the script is awaited."""
        return f"{self.mark}.ready ".encode()

    @property
    def given(self) -> bytes:
        """On stdout: the script is read, its stdin may follow (or: the stream is open)."""
        return f"{self.mark}.given\n".encode()

    @property
    def end(self) -> bytes:
        """On both streams: nothing of the script follows. On stdout with its exit code."""
        return f"{self.mark}.end".encode()


def _dialogue(payload: str, *, become: bool, mark: tuple[str, str], stdin: bytes = b"") -> Dialogue:
    data = payload.encode()
    outer = _BECOME if become else _STAY
    words = ("sh", "-c", outer, "sh", *mark, str(len(data)), _READER)
    command = " ".join(word if word.isalnum() else quote(word) for word in words)
    return Dialogue(command=command, payload=data, mark="".join(mark), stdin=stdin)


def _mark() -> tuple[str, str]:
    return f"cpudeploy-{random.token_hex(4)}", f"-{random.token_hex(8)}"


def supervised(script: str, args: Mapping[str, str], *, become: bool, stdin: bytes = b"") -> Dialogue:
    """A script with an end: it reads `stdin`, and is terminated when the channel closes early."""
    mark = _mark()
    joined = "".join(mark)
    payload = _SUPERVISED.format(
        # busybox's head reads ahead: stdin may only be sent when the script has been read.
        given=f"echo '{joined}.given'\n" if stdin else "",
        feed=f"head -c {len(stdin)}\n" if stdin else "",
        assignments=assignments(args),
        script=script,
        mark=joined,
    )
    return _dialogue(payload, become=become, mark=mark, stdin=stdin)


def piped(script: str, args: Mapping[str, str], *, become: bool) -> Dialogue:
    """A script that has the channel itself as stdin and stdout, from the `given` mark on."""
    mark = _mark()
    payload = f"echo '{''.join(mark)}.given'\n{assignments(args)}{script}\n"
    return _dialogue(payload, become=become, mark=mark)
