"""Random models as their makers' tools write them: folders of transformers, and weights read back from GGUF files."""

import json
import math
import shutil

import numpy as np
import torch
import transformers

import vocabularies


def sees(name):
    """Whether a tensor belongs to the vision part of a model."""
    return any(part in name for part in ("vision", "visual", "multi_modal"))


def model_of(case, seed, dtype=torch.float32):
    """A model of the case with random weights, far from values that would hide a missing part."""
    torch.manual_seed(seed)
    gemma = "Gemma" in case.classes
    # Norms whose weights are stored minus one.
    less_one = gemma and "Gemma4" not in case.classes
    model = classes(case)[1](configuration(case, case.config)).to(dtype).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if sees(name):
                continue
            if name.endswith("norm.weight"):
                weight.add_(0.3 * torch.randn_like(weight))
                if "Gemma4" in case.classes and name.endswith("q_norm.weight"):
                    # Scores have no other divisor.
                    weight.mul_(weight.shape[0] ** -0.5)
            elif name.endswith("A_log"):
                # As at the start of Mamba-2's training and of similar models: with
                # unrealistic decay rates a random model's state would consist of its norms'
                # rounding errors.
                weight.uniform_(1, 16).log_()
            elif name.endswith("dt_bias"):
                step = weight.uniform_(math.log(1e-3), math.log(1e-1)).exp()
                weight.copy_(step + torch.log(-torch.expm1(-step)))
            elif name.endswith("in_proj_a.weight"):
                weight.normal_(std=0.5 / weight.shape[1] ** 0.5)
            elif "experts." in name:
                weight.normal_(std=1.6 / weight.shape[-1] ** 0.5)
            elif weight.ndim != 2:
                # Biases, and the taps of convolutions.
                weight.normal_(std=0.5)
            elif "embed_tokens_per_layer" in name:
                # As large as the term it is added to, after the product with the root of a layer's width.
                weight.normal_(std=case.config["hidden_size_per_layer_input"] ** -0.5)
            elif "embed_tokens" in name:
                # Gemma multiplies its embeddings by the root of the width, Granite by a
                # factor. With tied embeddings, large ones would make every model repeat its
                # last token.
                factor = weight.shape[1] ** 0.5 if gemma else case.config.get("embedding_multiplier", 1)
                share = case.config.get("residual_multiplier", 1) if case.config["tie_word_embeddings"] else 3
                weight.normal_(std=0.3 * share / factor)
            else:
                weight.normal_(std=1.6 / weight.shape[1] ** 0.5)
        for name, scale in model.named_buffers():
            if name.endswith("layer_scalar"):
                scale.uniform_(0.5, 1.5)
            elif name.endswith("expert_bias"):
                scale.uniform_(-0.5, 0.5)
        # Logits spread enough for clear choices and active softcaps.
        text = model.config.get_text_config()
        cap = getattr(text, "final_logit_softcapping", None)
        offset = 1 if less_one or case.family == "qwen3_5" else 0
        if cap:
            text.final_logit_softcapping = None
        tokens = torch.randint(8, text.vocab_size, (1, 64))
        decoder = model.get_decoder()
        norm = getattr(decoder, "embedding_norm", None) or decoder.norm
        norm = norm.weight
        spread = model(input_ids=tokens, use_cache=False).logits.float().std()
        norm.copy_((norm + offset) * (3 / spread) - offset)
        if cap:
            text.final_logit_softcapping = cap
    return model


def classes(case):
    form = "ForConditionalGeneration" if case.wrapped else "ForCausalLM"
    stem = case.classes.removesuffix("Text")
    return getattr(transformers, f"{case.classes}Config"), getattr(transformers, f"{stem}{form}")


def configuration(case, config):
    """Configuration object of the case."""
    controls = dict(bos_token_id=2, eos_token_id=1, pad_token_id=0) if case.vocabulary == "gemma" else (
        dict(bos_token_id=1, eos_token_id=2, pad_token_id=0) if case.vocabulary == "spm" else
        dict(bos_token_id=0, eos_token_id=1, pad_token_id=0))
    config = json.loads(json.dumps(config)) | controls
    if not case.wrapped:
        return classes(case)[0](attn_implementation="eager", **config)
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 28, "patch_size": 14}
    tied = config["tie_word_embeddings"]
    if case.classes == "Gemma4":
        # The vision and audio parts may be absent here.
        return classes(case)[0](text_config=config, vision_config=None, audio_config=None, tie_word_embeddings=tied,
                                attn_implementation="eager", **controls)
    if case.classes == "Qwen3_5":
        vision |= {"depth": 1, "num_heads": 2, "num_position_embeddings": 16, "out_hidden_size": config["hidden_size"]}
        return classes(case)[0](text_config=config, vision_config=vision, tie_word_embeddings=tied,
                                attn_implementation="eager", **controls)
    return classes(case)[0](
        text_config=config, vision_config=vision, mm_tokens_per_image=4, image_token_index=5, boi_token_index=6,
        eoi_token_index=7, tie_word_embeddings=tied, attn_implementation="eager",
        **{k: v for k, v in controls.items()})


def save(model, case, folder, shards=None):
    """Folder written by `save_pretrained`, with the tokenizer of the case."""
    more = {"max_shard_size": shards} if shards else {}
    model.generation_config.do_sample = False
    model.save_pretrained(folder, **more)
    vocabularies.train(case.vocabulary, case.config["vocab_size"], folder)
    if case.name == "phi4-mini":
        # The converter distinguishes it from Phi-3 by this.
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"tokenizer_class": "GPT2Tokenizer"}, indent=2))


def respell(source, folder):
    """Copies a folder with its config.json in the spelling of transformers 4."""
    shutil.copytree(source, folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for part in [config, config.get("text_config", {})]:
        spell_as_4(part)
    config["transformers_version"] = "4.51.3"
    path.write_text(json.dumps(config, indent=2))


def spell_as_4(config):
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    if "per_layer_config" in config:
        # Gemma 4's own folders are written so, and have `rope_parameters` already.
        [config["global_head_dim"]] = {own["head_dim"] for own in config.pop("per_layer_config").values()}
        return
    rope = config.pop("rope_parameters", None)
    if rope is None:
        return
    if "full_attention" in rope:
        config["rope_theta"] = rope["full_attention"].pop("rope_theta")
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
        if config["layer_types"] == [
                "full_attention" if n % 6 == 5 else "sliding_attention" for n in range(config["num_hidden_layers"])]:
            del config["layer_types"]
            config["sliding_window_pattern"] = 6
    elif config["model_type"] == "lfm2":
        kinds = enumerate(config.pop("layer_types"))
        config["full_attn_idxs"] = [n for n, kind in kinds if kind == "full_attention"]
    elif "layer_types" in config and config["model_type"] not in ("granitemoehybrid", "qwen3_5_text", "lfm2_moe") and (
            config["model_type"] != "exaone4" or config["sliding_window"]):
        # Written since 4.53; before, each family had its own keys. transformers can't read an EXAONE
        # 4 without a window that lacks them.
        del config["layer_types"]
    config["rope_theta"] = rope.pop("rope_theta", config.get("rope_theta"))
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    kind = rope.pop("rope_type")
    if kind == "longrope":
        config["original_max_position_embeddings"] = rope.pop("original_max_position_embeddings")
    # Phi uses `type`, as all did before 4.43.
    name = "type" if kind == "longrope" else "rope_type"
    config["rope_scaling"] = None if kind == "default" else rope | {name: kind}


def gguf_matrices(path, names):
    """Every matrix of a GGUF file, dequantised by the makers' own code, under its name of transformers.

    `names` maps the names of transformers to those of GGUF, one or several below each other.
    """
    import gguf

    reader = gguf.GGUFReader(path)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    kinds = sorted({tensor.tensor_type.name for tensor in reader.tensors if len(tensor.shape) > 1})
    found = {}

    def values(there):
        tensor = stored[there]
        return gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    for name, there in names.items():
        parts = [there] if isinstance(there, str) else there
        if all(part in stored and len(stored[part].shape) > 1 for part in parts):
            # The parts of each expert are stacked.
            found[name] = np.concatenate([values(part) for part in parts], axis=-2)
    return found, kinds


def gguf_names(model, architecture):
    """Names of the model's tensors in a GGUF file."""
    import gguf

    number = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    layers = model.config.get_text_config().num_hidden_layers
    table = gguf.get_tensor_name_map(number, layers)
    names = {}
    for name in model.state_dict():
        block, _, inside = name.partition(".shared_mlp.")
        if inside:
            # Granite 4's, which the converter splits.
            block = "blk." + block.rpartition(".")[2]
            names[name] = {"input_linear.weight": [f"{block}.ffn_gate.weight", f"{block}.ffn_up.weight"],
                           "output_linear.weight": f"{block}.ffn_down.weight"}[inside]
            continue
        block, _, inside = name.partition(".experts.")
        if inside:
            block = "blk." + block.split(".")[2]
            names[name] = {"gate_up_proj": [f"{block}.ffn_gate_exps.weight", f"{block}.ffn_up_exps.weight"],
                           "down_proj": f"{block}.ffn_down_exps.weight"}[inside]
            continue
        plain = name.replace("model.language_model.", "model.")
        there = table.get_name(plain, try_suffixes=(".weight", ".bias"))
        if there and not sees(name):
            names[name] = there
    return names


def predict_further(folder):
    """Adds a multi-token prediction layer, which transformers ignores, to a folder of Qwen3.5."""
    import safetensors.torch

    path, weights = folder / "config.json", folder / "model.safetensors"
    config, tensors = json.loads(path.read_text()), safetensors.torch.load_file(weights)
    last = f"model.layers.{config['layer_types'].index('full_attention')}."
    own = {name.replace(last, "mtp.layers.0."): weight.clone() for name, weight in tensors.items() if name.startswith(last)}
    width = config["hidden_size"]
    norms = {f"mtp.{name}.weight": torch.ones(width) for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")}
    tensors |= own | norms | {"mtp.fc.weight": torch.ones(width, 2 * width)}
    safetensors.torch.save_file(tensors, weights, {"format": "pt"})
    path.write_text(json.dumps(config | {"mtp_num_hidden_layers": 1}, indent=2))


def unpermute(array, heads):
    """Reverses the converter's reordering of query and key rows of Llama-like models."""
    rows = array.shape[0]
    return array.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(array.shape)


def untile(name, array, config):
    """Reverses the converter's reordering of a delta net's value heads: rows, or columns of its output."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    first = 2 * keys * config.linear_key_head_dim if "in_proj_qkv" in name else 0
    if "out_proj" in name:
        return untile("", array.T, config).T
    heads = array[first:].reshape(values // keys, keys, -1, array.shape[1]).swapaxes(0, 1)
    return np.concatenate([array[:first], heads.reshape(-1, array.shape[1])])


def read_back(model, case, path, architecture):
    """Loads the matrices of a GGUF file into the model, which has the rest. Returns their formats."""
    found, kinds = gguf_matrices(path, gguf_names(model, architecture))
    state = model.state_dict()
    config = model.config.get_text_config()
    with torch.no_grad():
        for name, array in found.items():
            if not is_matrix(name, state[name]):
                # Unchanged: a convolution's taps, and what GGUF stores as a column.
                continue
            if architecture in ("llama", "smollm3", "granite", "granitehybrid", "mistral3"):
                if name.endswith("q_proj.weight"):
                    array = unpermute(array, config.num_attention_heads)
                if name.endswith("k_proj.weight"):
                    array = unpermute(array, config.num_key_value_heads)
            if architecture == "qwen35" and "linear_attn." in name:
                array = untile(name, array, config)
            assert state[name].shape == array.shape, name
            state[name].copy_(torch.from_numpy(array))
    matrices = [n for n, w in state.items() if is_matrix(n, w)]
    missing = [n for n in matrices if n not in found and not (n == "lm_head.weight" and case.config["tie_word_embeddings"])]
    assert not missing, f"not in {path}: {missing}"
    return kinds


def is_matrix(name, weight):
    """Whether a tensor of a language model is a matrix, or all experts' matrices."""
    return (weight.ndim == 2 or "experts." in name) and not sees(name)


def quantised(model, kind):
    """Quantises every matrix whose rows are whole blocks, as when quantising while loading."""
    import gguf

    number = getattr(gguf.GGMLQuantizationType, kind.upper())
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # A router's scores are not rounded.
            if is_matrix(name, weight) and weight.shape[-1] % 32 == 0 and not name.endswith(".gate.weight"):
                blocks = gguf.quants.quantize(weight.numpy(), number)
                weight.copy_(torch.from_numpy(np.array(gguf.quants.dequantize(blocks, number))))
