"""Makes tests/fixtures/parity: one tiny model per family, some as folders and some as GGUF files.

    python make_fixtures.py --tools DIR     # DIR keeps llama.cpp's tools between runs

CASE-hf/config.json, CASE-hf/model.safetensors or CASE-gguf/model.gguf, with the results of
transformers: reference.json with the prompts, the numbers of the stored rows, the greedy text and the limit
of our logits' errors, and reference.f32 with those rows.
"""

import argparse
import json
import logging
import os
import pathlib
import shutil
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402

import families  # noqa: E402
import makers  # noqa: E402
import reference  # noqa: E402
import tools  # noqa: E402

OUT = pathlib.Path(__file__).parent.parent / "fixtures" / "parity"

# Cases kept in each form. Differences between a family's two forms are covered in both.
GGUF = [("llama", "f16"), ("tinyllama", "q4_0"), ("qwen2", "f32"), ("qwen3", "q8_0"), ("gemma", "q8_0"),
        ("gemma2", "f16"), ("gemma3", "q8_0"), ("phi3", "f16"), ("smollm3", "q8_0"), ("olmo2", "q8_0"),
        ("glm4", "f16"), ("granite", "q8_0"), ("llama-bias", "q4_1"),
        ("ernie4_5", "f16"), ("olmo3", "q8_0"), ("exaone4", "q8_0"), ("ministral3", "f16"),
        ("lfm2", "q8_0"), ("hunyuan", "q8_0"), ("granite4", "q8_0"), ("qwen3_5", "q8_0"), ("gemma4", "q8_0"),
        ("granite4-h", "q8_0"), ("lfm2_moe", "q8_0"), ("olmoe", "q8_0")]
FOLDERS = [("llama-bias", "float16", 4), ("mistral", "bfloat16", 5), ("qwen2-window", "float16", 5),
           ("qwen3-yarn", "float16", 4), ("gemma2-scalar", "float16", 5), ("gemma3-layers", "float16", 4),
           ("phi4-mini", "float16", 4), ("smollm3-layers", "float16", 5), ("olmo2", "bfloat16", 5),
           ("glm4", "float16", 5), ("granite", "float16", 4),
           ("ernie4_5-bias", "float16", 5), ("olmo3", "bfloat16", 5), ("exaone4-window", "float16", 5),
           ("granite4", "float16", 5), ("lfm2", "bfloat16", 5), ("lfm2-bias", "float16", 5),
           ("hunyuan-alpha", "float16", 5), ("qwen3_5", "float16", 4), ("qwen3_5-layers", "bfloat16", 5),
           ("gemma4", "bfloat16", 5), ("gemma4-wrapped", "float16", 4),
           ("granite4-h", "bfloat16", 5), ("granite4-h-groups", "float16", 5), ("qwen3_5-wrapped", "float16", 5),
           ("lfm2_moe", "bfloat16", 5), ("lfm2_moe-plain", "float16", 4), ("olmoe", "float16", 4),
           ("olmoe-norm", "bfloat16", 5)]
# Rows of each prompt: the first and last tokens, and some around the windows and the change of factors.
ROWS = [[0, 4], [20, 36], [63, 150, 299]]


def keep(name, model, seed, limit):
    prompts, rows, greedy = reference.compute(model, seed + 1, limit)
    reference.write(OUT / name / "reference", prompts, rows, greedy, kept=ROWS, limit=limit)


def folder(case, seed, dtype, spelling):
    with tempfile.TemporaryDirectory() as place:
        plain = pathlib.Path(place) / "plain"
        makers.model_of(case, seed).to(getattr(torch, dtype)).save_pretrained(plain)
        source = plain
        if spelling == 4:
            source = pathlib.Path(place) / "spelling-4"
            makers.respell(plain, source)
        loaded = makers.classes(case)[1].from_pretrained(source, dtype=torch.float32, attn_implementation="eager")
        name = f"{case.name}-hf"
        (OUT / name).mkdir()
        for file in ("config.json", "model.safetensors"):
            shutil.copy(source / file, OUT / name / file)
    keep(name, loaded.eval(), seed, 1e-4)


def gguf(case, seed, kind):
    import gguf

    model = makers.model_of(case, seed)
    if kind == "f16":
        # Norms stay f32 in a GGUF file.
        with torch.no_grad():
            for weight in model.parameters():
                if weight.ndim == 2:
                    weight.copy_(weight.half().float())
    name = f"{case.name}-gguf"
    (OUT / name).mkdir()
    path = OUT / name / "model.gguf"
    with tempfile.TemporaryDirectory() as place:
        # The converter writes the folder's name into the file.
        plain = pathlib.Path(place) / "parity"
        model.save_pretrained(plain)
        if case.family == "qwen3_5":
            makers.predict_further(plain)
        # The converter cuts Gemma 3's embedding to this number of entries.
        entries = {f"<{n}>": n for n in range(case.config["vocab_size"])}
        (plain / "tokenizer.json").write_text(json.dumps({"model": {"vocab": entries}, "added_tokens": []}))
        f32 = plain / "f32.gguf"
        rounded = kind in ("q4_0", "q4_1")
        # A vocabulary of a hundred tokens can't hold all bytes, so these files have none.
        tools.convert(plain, f32 if rounded else path, "f32" if rounded else kind, None)
        if rounded:
            requantise(f32, path, gguf, gguf.GGMLQuantizationType[kind.upper()])
    field = gguf.GGUFReader(path).fields["general.architecture"]
    architecture = bytes(field.parts[field.data[0]]).decode()
    for key, value in case.in_gguf.items():
        setattr(model.config, key, value)
    makers.read_back(model, case, path, architecture)
    keep(name, model, seed, 1e-4 if kind.startswith("f") else 2e-3)


def requantise(source, path, gguf, to):
    """Converts every matrix of the file to the format `to` with the reference code, without a compiled library."""
    reader = gguf.GGUFReader(source)
    architecture = bytes(reader.fields["general.architecture"].parts[-1]).decode()
    writer = gguf.GGUFWriter(path, architecture)
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        writer.add_key_value(key, field.contents(), field.types[0], field.types[1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        if len(tensor.shape) == 2:
            writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.data, to), raw_dtype=to)
        else:
            writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()
    tools.converter(arguments.tools.resolve())
    cases = {case.name: case for case in families.cases(1, tiny=True)}
    for old in [*OUT.glob("*-gguf"), *OUT.glob("*-hf")]:
        shutil.rmtree(old)
    OUT.mkdir(parents=True, exist_ok=True)
    for number, (name, kind) in enumerate(GGUF):
        gguf(cases[name], 100 + number, kind)
    for number, (name, dtype, spelling) in enumerate(FOLDERS):
        folder(cases[name], 200 + number, dtype, spelling)
    total = sum(file.stat().st_size for file in OUT.rglob("*") if file.is_file())
    print(f"{len(GGUF) + len(FOLDERS)} fixtures, {total} bytes")


if __name__ == "__main__":
    main()
