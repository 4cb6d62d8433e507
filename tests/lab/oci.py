"""Images of one layer, written straight into a registry's storage.

In: a layer that was packed once and is kept. Out: the image's digest. An engine that would import, compress and
push three gigabytes takes minutes; copying the packed layer takes seconds.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.lab.shell import LabError, tail

_CHUNK = 4 << 20
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
LAYER_FILE = "layer.tar.zst"


@dataclass(frozen=True)
class Layer:
    """A root file system as zstd-compressed tar. digest: of the file; diff_id: of the tar inside."""

    path: Path
    digest: str
    diff_id: str


def pack(rootfs: Path, folder: Path) -> None:
    """Pack a root file system into a new folder that `layer` reads."""
    folder.mkdir()
    path = folder / LAYER_FILE
    shape = ["--sort=name", "--numeric-owner", "--mtime=@0"]
    plain = hashlib.sha256()
    with (
        path.open("wb") as out,
        subprocess.Popen(["tar", *shape, "-C", rootfs, "-cf", "-", "."], stdout=subprocess.PIPE) as tar,
        subprocess.Popen(
            ["zstd", "-q", "-3", "-T0"], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE
        ) as zstd,
    ):
        assert tar.stdout and zstd.stdin and zstd.stderr
        while chunk := tar.stdout.read(_CHUNK):
            plain.update(chunk)
            zstd.stdin.write(chunk)
        zstd.stdin.close()
        said = zstd.stderr.read().decode(errors="replace")
    if tar.returncode or zstd.returncode:
        raise LabError(f"packing {rootfs}: tar {tar.returncode}, zstd {zstd.returncode}\n{tail(said)}")
    with path.open("rb") as file:
        packed = hashlib.file_digest(file, "sha256")
    told = {"digest": f"sha256:{packed.hexdigest()}", "diff_id": f"sha256:{plain.hexdigest()}"}
    (folder / "layer.json").write_text(json.dumps(told))


def layer(folder: Path) -> Layer:
    """The layer that `pack` left in a folder."""
    told = json.loads((folder / "layer.json").read_text())
    return Layer(folder / LAYER_FILE, told["digest"], told["diff_id"])


def store(storage: Path, repository: str, tag: str, layer: Layer, settings: dict[str, Any]) -> str:
    """Put an image into a registry's storage as `repository:tag`; its digest.

    storage: the registry's root directory. settings: of its containers, such as Env and Entrypoint.
    """
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
            "history": [{"created_by": "cpudeploy lab"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "digest": _digest(config), "size": len(config)},
            "layers": [
                {"mediaType": _LAYER, "digest": layer.digest, "size": layer.path.stat().st_size},
            ],
        }
    )
    root = storage / "docker" / "registry" / "v2"
    blob = _blob(root, layer.digest)
    if not blob.exists():
        shutil.copyfile(layer.path, blob)
    for data in (config, manifest):
        _blob(root, _digest(data)).write_bytes(data)
    mine = root / "repositories" / repository
    for digest in (layer.digest, _digest(config)):
        _link(mine / "_layers", digest)
    digest = _digest(manifest)
    _link(mine / "_manifests" / "revisions", digest)
    tagged = mine / "_manifests" / "tags" / tag
    _link(tagged / "index", digest)
    (tagged / "current").mkdir(parents=True, exist_ok=True)
    (tagged / "current" / "link").write_text(digest)
    return digest


def _json(data: dict[str, Any]) -> bytes:
    return msgspec.json.encode(data)


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blob(root: Path, digest: str) -> Path:
    """Where a blob's data lies; its folder is made."""
    kind, _, hexadecimal = digest.partition(":")
    folder = root / "blobs" / kind / hexadecimal[:2] / hexadecimal
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "data"


def _link(folder: Path, digest: str) -> None:
    kind, _, hexadecimal = digest.partition(":")
    place = folder / kind / hexadecimal
    place.mkdir(parents=True, exist_ok=True)
    (place / "link").write_text(digest)
