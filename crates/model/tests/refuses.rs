//! What no decoder computes is refused by its plan, before any of it is read: left out it would be
//! nonsense in good order.

#[path = "held/session.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod session;

use conclave_model::{LoadOptions, ModelError, about};
use conclave_weights::{Checkpoint, Memory};

/// A folder's weights with one more tensor, of as many numbers as another has.
fn with_tensor(file: &[u8], like: &str, name: &str) -> Vec<u8> {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let mut data = file[8 + length..].to_vec();
    let mut tensor = header[like].clone();
    let offsets: Vec<usize> = serde_json::from_value(tensor["data_offsets"].clone()).unwrap();
    let copy = data[offsets[0]..offsets[1]].to_vec();
    tensor["data_offsets"] = serde_json::json!([data.len(), data.len() + copy.len()]);
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
