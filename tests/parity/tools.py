"""llama.cpp's own converter and quantiser, as its makers publish them on PyPI.

Both come from the source package of llama-cpp-python: the converter (with the `gguf` module that
belongs to it) is used unchanged, the quantiser is its compiled library. Neither is stored in
this repository.
"""

import ctypes
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile

PACKAGE = "llama-cpp-python==0.3.36"

# Portable and quick to build: it only quantises megabytes.
BUILD = ("-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF "
         "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_C_FLAGS_RELEASE=-O1")

# llama_ftype of llama.h, by the usual names of these files.
FILE_TYPES = {
    "q4_0": 2, "q4_1": 3, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k_m": 12, "q4_k_m": 15, "q5_k_m": 17, "q6_k": 18,
    "iq3_m": 27, "iq4_nl": 25, "iq4_xs": 30, "mxfp4": 38,
}


def pip(*arguments, **environment):
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    subprocess.run(command, check=True, env=os.environ | environment)


def converter(folder):
    """Makes llama.cpp's modules `gguf` and `conversion` importable, fetching them into `folder` once."""
    source = folder / "llama.cpp"
    if not source.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        archives = list(folder.glob("llama_cpp_python-*.tar.gz"))
        if not archives:
            pip("download", PACKAGE, "--no-deps", "--no-binary", "llama-cpp-python", "-d", str(folder))
            archives = list(folder.glob("llama_cpp_python-*.tar.gz"))
        partial = folder / "llama.cpp.partial"
        with tarfile.open(archives[0]) as archive:
            for member in archive:
                inside = pathlib.PurePosixPath(member.name).parts[1:]
                if inside[:2] == ("vendor", "llama.cpp") and inside[2:3] and inside[2] in ("conversion", "gguf-py"):
                    member.name = str(pathlib.PurePosixPath(*inside[2:]))
                    archive.extract(member, partial, filter="data")
        partial.rename(source)
    # First in the path: the released `gguf` may be older than the converter.
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    return importlib.import_module("conversion")


def convert(folder, out, kind, pre):
    """Writes the Hugging Face folder as a GGUF file in `kind` (f32, f16, bf16, q8_0), as the makers do.

    The converter knows published tokenizers by a hash of what they make of a text, and refuses
    others; `pre` is what it would have found. Without it the file gets no vocabulary.
    """
    import conversion
    import gguf
    import torch

    # The spelling of published folders, which the converter expects for attention layers; transformers 5 saves `full_attention`.
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] == "granitemoehybrid":
        config["layer_types"] = [kind.removeprefix("full_") for kind in config["layer_types"]]
        (folder / "config.json").write_text(json.dumps(config, indent=2))
    kinds = {"f32": "ALL_F32", "f16": "MOSTLY_F16", "bf16": "MOSTLY_BF16", "q8_0": "MOSTLY_Q8_0"}
    parameters = conversion.ModelBase.load_hparams(folder, False)
    architecture = conversion.get_model_architecture(parameters, conversion.ModelType.TEXT)
    model = conversion.get_model_class(architecture, mmproj=False)
    # The converter looks for multi-token prediction layers unless the configuration denies them.
    model.no_mtp = "mtp_num_hidden_layers" not in parameters
    if pre is None:
        model.set_vocab = lambda self: self._set_vocab_none()
    else:
        conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    with torch.inference_mode():
        model(folder, getattr(gguf.LlamaFileType, kinds[kind]), out, eager=True).write()


def quantiser(folder):
    """llama.cpp's `llama_model_quantize` as a function of (source, out, kind), built into `folder` once."""
    site = folder / "site"
    if not (site / "llama_cpp").is_dir():
        archives = [*folder.glob("llama_cpp_python-*.whl"), *folder.glob("llama_cpp_python-*.tar.gz")]
        what = str(archives[0]) if archives else PACKAGE
        pip("install", "--no-deps", "--target", str(site), what, CMAKE_ARGS=BUILD)
        pip("install", "--no-deps", "--target", str(site), "diskcache")
    sys.path.append(str(site))
    import llama_cpp

    quiet = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()

    def quantise(source, out, kind, keep=quiet):
        parameters = llama_cpp.llama_model_quantize_default_params()
        parameters.ftype = FILE_TYPES[kind]
        parameters.nthread = 1
        # MXFP4 is meant for experts; in a dense model only `pure` applies it to matrices.
        parameters.pure = kind == "mxfp4"
        code = llama_cpp.llama_model_quantize(str(source).encode(), str(out).encode(), ctypes.byref(parameters))
        if code != 0:
            raise RuntimeError(f"llama.cpp refused to quantise {source} to {kind}")

    return quantise
