"""What stands on a host, in a form that is equal for two hosts in the same state: objects of the engine,
files of the state folder, processes, units. Whatever an interrupted change leaves behind shows as a difference.
"""

from __future__ import annotations

import json
import re
from collections import Counter

from tests.lab.hosts import Host

LOOK = r"""
docker ps --all --no-trunc --format 'container {{.Names}} {{.State}} on {{.Networks}}' | sed 's/rag_pub,rag_int/rag_int,rag_pub/'
docker network ls --format 'network {{.Name}}'
docker volume ls --format 'volume {{.Name}}'
docker inspect --format 'policy {{.Name}} {{.HostConfig.RestartPolicy.Name}}' $(docker ps --all --quiet)
cd /var/lib/cpudeploy && find . | sort | sed 's/^/file /'
systemctl list-units --all --plain --no-legend 'cpudeploy*' | sed 's/^/unit /'
ls -d /run/cpudeploy* /tmp/* 2>/dev/null | grep -v systemd-private | sed 's/^/file /'
ps -eo args= | sed 's/^/process /'
"""

RELEASES = r"""
cd /var/lib/cpudeploy/rag || exit 1
docker inspect --format '{{index .Config.Labels "io.cpudeploy.release"}}' rag_tiny_0
ls secrets/rag_tiny_0
for each in releases/*; do cat "$each"; echo; done
"""

NOT_COUNTED = re.compile(
    r"^(file \./(rag/releases|weights/refs|weights/partial)/|file \./audit\.jsonl"  # they grow, or come and go
    r"|file /tmp/cpudeploy\."  # scratch of a probe that was killed in the middle
    r"|process (ps |sed |sleep |sh -c|/bin/sh -c|\[|.*(sshd|systemd|sudo|dbus|find |sort$)))"
)
SPECIFIC = ((re.compile(r"\b\d{4}-[0-9a-f]{8}\b"), "RELEASE"), (re.compile(r"\b[0-9a-f]{12,64}\b"), "ID"))
NUMBERS = re.compile(r"\b\d+(\.\d+)*\b")


def shape(host: Host) -> Counter[str]:
    """The host's lines, each with how often it is there."""
    lines = host.exec(["sh", "-c", LOOK]).stdout.splitlines()
    return Counter(plain(line) for line in lines if not NOT_COUNTED.match(line))


def plain(line: str) -> str:
    """Without what differs from one upgrade to the next: releases, ids, and the numbers of a command line."""
    for pattern, word in SPECIFIC:
        line = pattern.sub(word, line)
    return NUMBERS.sub("N", line) if line.startswith("process ") else line


def differences(before: Counter[str], after: Counter[str]) -> list[str]:
    """What is there too often (+) or too seldom (-), one line each."""
    more = [f"+{count} {line}" for line, count in (after - before).items()]
    return more + [f"-{count} {line}" for line, count in (before - after).items()]


def release_faults(host: Host) -> list[str]:
    """What is wrong with the release files: unreadable ones, two of a name, the container's own missing,
    secrets of others than the container's."""
    done = host.exec(["sh", "-c", RELEASES])
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 3:
        return ["no releases can be read"]
    ours, secrets, documents = lines[0], lines[1], [line for line in lines[2:] if line]
    try:
        ids = [json.loads(document)["id"] for document in documents]
    except (ValueError, KeyError):
        return ["a release file is damaged, or a container has secrets of two releases"]
    faults = []
    if secrets != ours:
        faults.append(f"the container is of release {ours}, its secrets of {secrets}")
    if ours not in ids:
        faults.append(f"the container's release {ours} has no file")
    if len(ids) != len(set(ids)):
        faults.append("two release files of one id")
    return faults
