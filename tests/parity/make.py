"""Makes random models with their makers' tools, and transformers' results for them.

    python make.py --out DIR [--tools DIR] [--seed N] [--only CASE,..] [--formats FORMAT,..]

DIR/CASE/hf-f32, hf-bf16, hf-shards, hf-spelling-4   folders as save_pretrained writes them
DIR/CASE/f32.gguf, q4_k_m.gguf, ..                   by llama.cpp's converter and quantiser
DIR/CASE/REFERENCE.json, REFERENCE.f32               prompts, greedy text and all logits
DIR/models.json                                      one entry per comparison

`cargo xtask parity` runs it and compares.
"""

import argparse
import json
import logging
import os
import pathlib
import shutil
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402

import families  # noqa: E402
import makers  # noqa: E402
import reference  # noqa: E402
import tools  # noqa: E402

EXACT, QUANTISED = 1e-4, 2e-3
FOLDERS = ["hf-f32", "hf-bf16", "hf-shards", "hf-spelling-4"]
ON_LOAD = ["hf-f32:q8_0", "hf-f32:q4_0"]
CONVERTED = ["f32", "f16", "bf16", "q8_0"]
FORMATS = FOLDERS + ON_LOAD + CONVERTED + list(tools.FILE_TYPES)


class Maker:
    """Makes one case in all requested formats, and lists the results."""

    def __init__(self, out, case, seed, formats, quantise):
        self.out, self.case, self.seed = out, case, seed
        self.formats, self.quantise = formats, quantise
        self.folder = out / case.name
        self.made = []

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        model = makers.model_of(self.case, self.seed)
        self.plain = self.folder / "hf-f32"
        makers.save(model, self.case, self.plain)
        if "hf" in self.case.worlds:
            self.hugging_face(model)
        if "gguf" in self.case.worlds and any(f in CONVERTED or f in tools.FILE_TYPES for f in self.formats):
            self.gguf(model)
        return self.made

    def hugging_face(self, model):
        exact = [f for f in ("hf-f32", "hf-shards", "hf-spelling-4") if f in self.formats]
        if exact:
            self.refer(model, "hf-f32", EXACT)
        if "hf-f32" in exact:
            self.add("hf-f32", self.plain, "hf-f32", EXACT)
        if "hf-shards" in exact:
            size = sum(w.numel() * 4 for w in model.parameters())
            makers.save(model, self.case, self.folder / "hf-shards", f"{size // 3000 + 1}KB")
            self.add("hf-shards", self.folder / "hf-shards", "hf-f32", EXACT)
        if "hf-spelling-4" in exact:
            makers.respell(self.plain, self.folder / "hf-spelling-4")
            self.check_spelling(model)
            self.add("hf-spelling-4", self.folder / "hf-spelling-4", "hf-f32", EXACT)
        if "hf-bf16" in self.formats:
            folder = self.folder / "hf-bf16"
            makers.save(makers.model_of(self.case, self.seed).bfloat16(), self.case, folder)
            rounded = self.load(folder)
            self.refer(rounded, "hf-bf16", EXACT)
            self.add("hf-bf16", folder, "hf-bf16", EXACT)
        for kind in ("q8_0", "q4_0"):
            if f"hf-f32:{kind}" in self.formats:
                rounded = makers.model_of(self.case, self.seed)
                makers.quantised(rounded, kind)
                self.refer(rounded, f"hf-{kind}", QUANTISED)
                self.add(f"hf-f32:{kind}", self.plain, f"hf-{kind}", QUANTISED, quantise=kind)

    def load(self, folder):
        """Loads the folder with transformers, in f32."""
        loaded = makers.classes(self.case)[1].from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
        return loaded

    def check_spelling(self, model):
        """Checks that transformers reads the older spelling as the same model."""
        tokens = [list(range(10, 10 + 200))] if self.case.config["vocab_size"] > 210 else [list(range(10, 90))]
        ours = reference.logits(self.load(self.folder / "hf-spelling-4"), tokens)
        wanted = reference.logits(model, tokens)
        assert torch.equal(ours, wanted), "transformers reads the respelled config.json differently"

    def gguf(self, model):
        for key, value in self.case.in_gguf.items():
            setattr(model.config, key, value)
        f32 = self.folder / "f32.gguf"
        tools.convert(self.plain, f32, "f32", self.case.pre)
        import gguf
        field = gguf.GGUFReader(f32).fields["general.architecture"]
        architecture = bytes(field.parts[field.data[0]]).decode()
        before = {name: w.clone() for name, w in model.state_dict().items()}
        makers.read_back(model, self.case, f32, architecture)
        for name, weight in model.state_dict().items():
            assert torch.equal(weight, before[name]), f"{name} came back from the GGUF file changed"
        for kind in [f for f in self.formats if f in CONVERTED or f in tools.FILE_TYPES]:
            path = self.folder / f"{kind}.gguf"
            if kind in tools.FILE_TYPES:
                self.quantise(f32, path, kind)
            elif kind != "f32":
                tools.convert(self.plain, path, kind, self.case.pre)
            kinds = makers.read_back(model, self.case, path, architecture)
            limit = EXACT if kind in ("f32", "f16", "bf16") else QUANTISED
            self.refer(model, kind, limit)
            self.add(kind, path, kind, limit, holds=kinds)

    def refer(self, model, name, limit):
        prompts, rows, greedy = reference.compute(model, self.seed + 1, limit)
        reference.write(self.folder / name, prompts, rows, greedy)

    def add(self, format, path, refers, limit, **more):
        entry = {"family": self.case.family, "case": self.case.name, "format": format,
                 "path": str(path.relative_to(self.out)),
                 "reference": str((self.folder / refers).relative_to(self.out)), "limit": limit}
        self.made.append(entry | more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--tools", type=pathlib.Path, default=None, help="where llama.cpp's tools are kept; OUT/tools")
    parser.add_argument("--seed", type=int, default=0, help="of shapes, weights and prompts")
    parser.add_argument("--only", default="", help="cases or families, comma separated")
    parser.add_argument("--formats", default=",".join(FORMATS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    formats = arguments.formats.split(",")
    if unknown := [f for f in formats if f not in FORMATS]:
        sys.exit(f"unknown formats {', '.join(unknown)}; known are {', '.join(FORMATS)}")
    cases = families.cases(arguments.seed)
    if arguments.only:
        wanted = arguments.only.split(",")
        known = {c.name for c in cases} | {c.family for c in cases}
        if unknown := [w for w in wanted if w not in known]:
            sys.exit(f"unknown families {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        cases = [c for c in cases if c.name in wanted or c.family in wanted]
    out, kept = arguments.out.resolve(), (arguments.tools or arguments.out / "tools").resolve()
    out.mkdir(parents=True, exist_ok=True)
    tools.converter(kept)
    quantise = tools.quantiser(kept) if any(f in tools.FILE_TYPES for f in formats) else None

    made = []
    for number, case in enumerate(cases):
        start = time.monotonic()
        found = Maker(out, case, 1000 * arguments.seed + number, formats, quantise).run()
        made += found
        print(f"{case.name}: {len(found)} comparisons made in {time.monotonic() - start:.0f} s", flush=True)
        (out / "models.json").write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    main()
