//! A model that no decoder computes is refused by its plan, before any of it is read: left out it
//! would be nonsense in good order.

#[path = "held/session.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod session;

use conclave_model::{LoadOptions, ModelError, about};
use conclave_weights::{Checkpoint, Memory};
use serde_json::json;

/// A folder's weights with one more tensor, of as many numbers as another has.
fn with_tensor(file: &[u8], like: &str, name: &str) -> Vec<u8> {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let mut data = file[8 + length..].to_vec();
    let mut tensor = header[like].clone();
    let offsets: Vec<usize> = serde_json::from_value(tensor["data_offsets"].clone()).unwrap();
    let copy = data[offsets[0]..offsets[1]].to_vec();
    tensor["data_offsets"] = json!([data.len(), data.len() + copy.len()]);
    data.extend(copy);
    header[name] = tensor;
    let header = serde_json::to_vec(&header).unwrap();
    let mut whole = (header.len() as u64).to_le_bytes().to_vec();
    whole.extend(header);
    whole.extend(data);
    whole
}

#[test]
fn a_norm_with_a_shift_is_no_rms_norm() {
    let read = |file| std::fs::read(session::fixture("mistral-hf").join(file)).unwrap();
    let weight = "model.layers.1.post_attention_layernorm.weight";
    let shift = "model.layers.1.post_attention_layernorm.bias";
    let weights = with_tensor(&read("model.safetensors"), weight, shift);
    let files = [
        ("config.json", read("config.json")),
        ("model.safetensors", weights),
    ];
    let source = Memory::new(files.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec());
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    let refused = about(&checkpoint, LoadOptions::with_context(64));
    let named = matches!(&refused, Err(ModelError::Tensor { name, .. }) if name == shift);
    assert!(named, "{refused:?}");
}

/// The folder of a Llama of these widths.
fn llama(hidden: usize, layers: usize, [heads, width]: [usize; 2], feed_forward: usize) -> Memory {
    let (rows, inner) = (2, heads * width);
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![rows, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    for layer in 0..layers {
        let mut add = |name: &str, shape: &[usize]| {
            tensors.push((
                format!("model.layers.{layer}.{name}.weight"),
                shape.to_vec(),
            ));
        };
        for norm in ["input_layernorm", "post_attention_layernorm"] {
            add(norm, &[hidden]);
        }
        for name in ["q_proj", "k_proj", "v_proj"] {
            add(&format!("self_attn.{name}"), &[inner, hidden]);
        }
        add("self_attn.o_proj", &[hidden, inner]);
        add("mlp.gate_proj", &[feed_forward, hidden]);
        add("mlp.up_proj", &[feed_forward, hidden]);
        add("mlp.down_proj", &[hidden, feed_forward]);
    }
    let config = json!({
        "model_type": "llama", "hidden_size": hidden, "intermediate_size": feed_forward,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
        "head_dim": width, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096,
        "tie_word_embeddings": true,
    });
    folder(tensors, config)
}

/// The folder of a Qwen3.5 of one delta net, with a key head as wide, and so many value heads as
/// wide.
fn delta_net(key_width: usize, [heads, width]: [usize; 2]) -> Memory {
    const HIDDEN: usize = 4;
    let values = heads * width;
    let channels = 2 * key_width + values;
    let of_layer = [
        ("input_layernorm.weight", vec![HIDDEN]),
        ("post_attention_layernorm.weight", vec![HIDDEN]),
        ("linear_attn.in_proj_qkv.weight", vec![channels, HIDDEN]),
        ("linear_attn.in_proj_z.weight", vec![values, HIDDEN]),
        ("linear_attn.in_proj_b.weight", vec![heads, HIDDEN]),
        ("linear_attn.in_proj_a.weight", vec![heads, HIDDEN]),
        ("linear_attn.dt_bias", vec![heads]),
        ("linear_attn.A_log", vec![heads]),
        ("linear_attn.conv1d.weight", vec![channels, 1, 4]),
        ("linear_attn.norm.weight", vec![width]),
        ("linear_attn.out_proj.weight", vec![HIDDEN, values]),
        ("mlp.gate_proj.weight", vec![4, HIDDEN]),
        ("mlp.up_proj.weight", vec![4, HIDDEN]),
        ("mlp.down_proj.weight", vec![HIDDEN, 4]),
    ];
    let config = json!({
        "model_type": "qwen3_5_text", "hidden_size": HIDDEN, "intermediate_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 16,
        "linear_num_key_heads": 1, "linear_key_head_dim": key_width,
        "linear_num_value_heads": heads, "linear_value_head_dim": width,
        "tie_word_embeddings": true, "max_position_embeddings": 4096,
    });
    of_one_layer(HIDDEN, &of_layer, config)
}

/// The folder of a Granite 4.0-H of one state space of so many numbers a channel, with so many
/// heads as wide.
fn state_space(state: usize, [heads, width]: [usize; 2], more: serde_json::Value) -> Memory {
    const HIDDEN: usize = 4;
    let values = heads * width;
    let channels = 2 * state + values;
    let of_layer = [
        ("input_layernorm.weight", vec![HIDDEN]),
        ("post_attention_layernorm.weight", vec![HIDDEN]),
        (
            "mamba.in_proj.weight",
            vec![values + channels + heads, HIDDEN],
        ),
        ("mamba.dt_bias", vec![heads]),
        ("mamba.A_log", vec![heads]),
        ("mamba.D", vec![heads]),
        ("mamba.conv1d.weight", vec![channels, 1, 4]),
        ("mamba.conv1d.bias", vec![channels]),
        ("mamba.norm.weight", vec![values]),
        ("mamba.out_proj.weight", vec![HIDDEN, values]),
        ("shared_mlp.input_linear.weight", vec![8, HIDDEN]),
        ("shared_mlp.output_linear.weight", vec![HIDDEN, 4]),
    ];
    let mut config = json!({
        "model_type": "granitemoehybrid", "hidden_size": HIDDEN, "shared_intermediate_size": 4,
        "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
        "layer_types": ["mamba"], "num_local_experts": 0, "mamba_d_state": state,
        "mamba_n_heads": heads, "mamba_expand": values / HIDDEN, "tie_word_embeddings": true,
        "max_position_embeddings": 4096,
    });
    let more = more.as_object().cloned().into_iter().flatten();
    config.as_object_mut().unwrap().extend(more);
    of_one_layer(HIDDEN, &of_layer, config)
}

/// The folder of an OLMoE of one layer.
fn experts(count: usize, used: usize, width: usize) -> Memory {
    const HIDDEN: usize = 4;
    let of_layer = [
        ("input_layernorm.weight", vec![HIDDEN]),
        ("post_attention_layernorm.weight", vec![HIDDEN]),
        ("self_attn.q_norm.weight", vec![HIDDEN]),
        ("self_attn.k_norm.weight", vec![HIDDEN]),
        ("self_attn.q_proj.weight", vec![HIDDEN; 2]),
        ("self_attn.k_proj.weight", vec![HIDDEN; 2]),
        ("self_attn.v_proj.weight", vec![HIDDEN; 2]),
        ("self_attn.o_proj.weight", vec![HIDDEN; 2]),
        ("mlp.gate.weight", vec![count, HIDDEN]),
        ("mlp.experts.gate_up_proj", vec![count, 2 * width, HIDDEN]),
        ("mlp.experts.down_proj", vec![count, HIDDEN, width]),
    ];
    let config = json!({
        "model_type": "olmoe", "hidden_size": HIDDEN, "intermediate_size": width,
        "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
        "num_experts": count, "num_experts_per_tok": used,
        "tie_word_embeddings": true, "max_position_embeddings": 4096,
    });
    of_one_layer(HIDDEN, &of_layer, config)
}

/// The folder of a model of two tokens and one layer that has these tensors.
fn of_one_layer(
    hidden: usize,
    of_layer: &[(&str, Vec<usize>)],
    config: serde_json::Value,
) -> Memory {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![2, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    let of_layer = of_layer.iter();
    tensors.extend(of_layer.map(|(name, shape)| (format!("model.layers.0.{name}"), shape.clone())));
    folder(tensors, config)
}

/// A folder of tensors that are all zeros, in BF16.
fn folder(tensors: Vec<(String, Vec<usize>)>, config: serde_json::Value) -> Memory {
    let (mut header, mut end) = (serde_json::Map::new(), 0);
    for (name, shape) in tensors {
        let begin = end;
        end += 2 * shape.iter().product::<usize>();
        let tensor = json!({"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]});
        header.insert(name, tensor);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header);
    weights.resize(weights.len() + end, 0);
    let config = serde_json::to_vec(&config).unwrap();
    let files = [("config.json", config), ("model.safetensors", weights)];
    Memory::new(files.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec())
}

/// Files of some megabytes whose states would take gigabytes, or whose keys and values would.
#[test]
fn what_is_out_of_proportion_is_refused_before_it_takes_memory() {
    let asked = |source: &Memory| {
        let checkpoint = pollster::block_on(Checkpoint::open(source)).unwrap();
        about(&checkpoint, LoadOptions::with_context(4096))
    };
    for (source, key) in [
        (llama(1 << 20, 1, [1, 2], 1), "hidden_size"),
        (llama(4, 1, [1 << 10, 1 << 10], 1), "hidden_size"),
        (llama(4, 1, [1, 4], 1 << 20), "hidden_size"),
        (llama(4, 64, [1, 1 << 14], 1), "num_key_value_heads"),
        (llama(4, 1, [1, 1 << 15], 1), "head_dim"),
        (delta_net(1 << 12, [32, 128]), "linear_key_head_dim"),
        (delta_net(4, [8, 1 << 15]), "hidden_size"),
        (experts(512, 512, 2048), "hidden_size"),
        (delta_net(1 << 12, [64, 128]), "linear_num_value_heads"),
        (state_space(1 << 12, [32, 128], json!({})), "mamba_d_state"),
        (state_space(4, [8, 1 << 15], json!({})), "hidden_size"),
        (state_space(1 << 12, [64, 128], json!({})), "mamba_n_heads"),
    ] {
        let refused = asked(&source);
        let named = matches!(&refused, Err(ModelError::Key { key: found, .. }) if found == key);
        assert!(named, "{key}: {refused:?}");
    }
    // Small and wide as published models are, it is none of these.
    let small = [
        llama(64, 2, [4, 16], 256),
        delta_net(16, [4, 16]),
        state_space(16, [4, 16], json!({})),
        experts(512, 8, 16),
    ];
    for source in small {
        let about = asked(&source).unwrap();
        assert!(about.memory.total() < 64 << 20, "{:?}", about.memory);
    }
}

/// Granite 4's larger models have experts; no model cuts steps of time.
#[test]
fn a_granite_4_of_other_parts_is_none_that_we_know() {
    for (key, value) in [
        ("num_local_experts", json!(8)),
        ("time_step_limit", json!([0.0, 0.1])),
        ("mamba_n_groups", json!(3)),
        ("layer_types", json!(["other"])),
    ] {
        let source = state_space(16, [4, 16], json!({ key: value }));
        let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
        let refused = about(&checkpoint, LoadOptions::with_context(64));
        let named = match key {
            // Three groups do not divide four heads.
            "mamba_n_groups" => "mamba_n_heads",
            _ => key,
        };
        let named = matches!(&refused, Err(ModelError::Key { key: found, .. }) if found == named);
        assert!(named, "{key}: {refused:?}");
    }
}

/// Gemma 4's larger models have more than its smaller ones, under the same name.
#[test]
fn a_gemma_4_of_other_parts_is_none_that_we_know() {
    let read = |file| std::fs::read(session::fixture("gemma4-hf").join(file)).unwrap();
    let config = String::from_utf8(read("config.json")).unwrap();
    for (key, is, other) in [
        ("enable_moe_block", "false", "true"),
        ("attention_k_eq_v", "false", "true"),
        ("use_bidirectional_attention", "null", "\"all\""),
        ("num_kv_shared_layers", "3", "7"),
    ] {
        let [is, other] = [is, other].map(|value| format!("\"{key}\": {value}"));
        assert!(config.contains(&is), "{config}");
        let files = [
            ("config.json", config.replace(&is, &other).into_bytes()),
            ("model.safetensors", read("model.safetensors")),
        ];
        let source = Memory::new(files.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec());
        let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
        let refused = about(&checkpoint, LoadOptions::with_context(64));
        let named = matches!(&refused, Err(ModelError::Key { key: named, .. }) if named == key);
        assert!(named, "{key}: {refused:?}");
    }
}

/// Describes the folder `name` with another configuration.
fn saying_otherwise(name: &str, is: &str, other: &str) -> Result<(), ModelError> {
    let read = |file| std::fs::read(session::fixture(name).join(file)).unwrap();
    let config = String::from_utf8(read("config.json")).unwrap();
    assert!(config.contains(is), "{is}: {config}");
    let files = [
        ("config.json", config.replace(is, other).into_bytes()),
        ("model.safetensors", read("model.safetensors")),
    ];
    let source = Memory::new(files.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec());
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    about(&checkpoint, LoadOptions::with_context(64)).map(|_| ())
}

#[test]
fn unknown_numbers_of_experts_are_refused() {
    for (model, key, is, others) in [
        (
            "lfm2_moe-hf",
            "num_experts",
            "6",
            &["0", "-1", "513", "1e30", "null", "\"6\""][..],
        ),
        (
            "lfm2_moe-hf",
            "num_experts_per_tok",
            "2",
            &["0", "7", "1.5"],
        ),
        (
            "lfm2_moe-hf",
            "moe_intermediate_size",
            "32",
            &["0", "1073741824"],
        ),
        (
            "lfm2_moe-plain-hf",
            "routed_scaling_factor",
            "1.75",
            &["0.0", "-1.0", "1e60"],
        ),
        ("olmoe-hf", "clip_qkv", "null", &["8.0"]),
        ("olmoe-hf", "num_experts_per_tok", "2", &["7"]),
    ] {
        for other in others {
            let [is, other] = [is, other].map(|value| format!("\"{key}\": {value}"));
            let refused = saying_otherwise(model, &is, &other);
            let named = matches!(&refused, Err(ModelError::Key { key: named, .. }) if named == key);
            assert!(named, "{other}: {refused:?}");
        }
    }
    // More than its tensors are of, or another width.
    for (model, key, is, other) in [
        ("lfm2_moe-hf", "num_experts", "6", "7"),
        ("lfm2_moe-hf", "num_experts", "6", "5"),
        ("lfm2_moe-hf", "moe_intermediate_size", "32", "64"),
        ("lfm2_moe-plain-hf", "use_expert_bias", "false", "true"),
    ] {
        let [is, other] = [is, other].map(|value| format!("\"{key}\": {value}"));
        let refused = saying_otherwise(model, &is, &other);
        assert!(
            matches!(refused, Err(ModelError::Tensor { .. })),
            "{other}: {refused:?}"
        );
    }
}
