//! Experts whose tensors a folder keeps in one, as transformers 5 holds them in memory, are those
//! of a tensor each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::backends;
use crate::session::{fixture, session, session_of};

/// A folder's weights with the experts of each layer in two tensors: gate above up of one after
/// another, and down.
fn fused(file: &[u8], [gate, up, down]: [&str; 3]) -> Vec<u8> {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&file[8..8 + length]).unwrap();
    let bytes = |tensor: &Value| {
        let [from, to]: [usize; 2] =
            serde_json::from_value(tensor["data_offsets"].clone()).unwrap();
        file[8 + length..][from..to].to_vec()
    };
    // By their names: shape, numbers, and how many experts there are.
    let mut made: BTreeMap<String, (Value, Vec<usize>, Vec<u8>, usize)> = BTreeMap::new();
    let of = |expert: usize, layer: &str, part: &str| {
        let tensor = header.get(&format!("{layer}.experts.{expert}.{part}.weight"))?;
        let shape: Vec<usize> = serde_json::from_value(tensor["shape"].clone()).unwrap();
        Some((tensor, shape))
    };
    for (name, tensor) in &header {
        let Some((layer, _)) = name.split_once(".experts.0.") else {
            if !name.contains(".experts.") && name != "__metadata__" {
                let shape = serde_json::from_value(tensor["shape"].clone()).unwrap();
                let one = (tensor["dtype"].clone(), shape, bytes(tensor), 0);
                made.insert(name.clone(), one);
            }
            continue;
        };
        for (parts, into) in [
            (&[gate, up][..], "gate_up_proj"),
            (&[down][..], "down_proj"),
        ] {
            let (mut all, mut count) = (Vec::new(), 0);
            while of(count, layer, parts[0]).is_some() {
                for part in parts {
                    all.extend(bytes(of(count, layer, part).unwrap().0));
                }
                count += 1;
            }
            let (tensor, mut shape) = of(0, layer, parts[0]).unwrap();
            shape[0] *= parts.len();
            shape.insert(0, count);
            let one = (tensor["dtype"].clone(), shape, all, count);
            made.insert(format!("{layer}.experts.{into}"), one);
        }
    }
    assert!(made.values().any(|(_, _, _, count)| *count > 1));
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, (dtype, shape, numbers, _)) in made {
        let offsets = [data.len(), data.len() + numbers.len()];
        let tensor = json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        header.insert(name, tensor);
        data.extend(numbers);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut whole = (header.len() as u64).to_le_bytes().to_vec();
    whole.extend(header);
    whole.extend(data);
    whole
}

#[test]
fn experts_in_one_tensor_are_those_of_a_tensor_each() {
    for (name, parts) in [
        ("olmoe-hf", ["gate_proj", "up_proj", "down_proj"]),
        ("lfm2_moe-hf", ["w1", "w3", "w2"]),
    ] {
        let read = |file: &str| std::fs::read(fixture(name).join(file)).unwrap();
        let weights = fused(&read("model.safetensors"), parts);
        let prompt: Vec<u32> = (0..40).map(|i| i * 7 % 59).collect();
        for (backend_name, backend) in backends() {
            let files = [
                ("config.json", read("config.json")),
                ("model.safetensors", weights.clone()),
            ];
            let files = files.map(|(name, bytes)| (name.to_owned(), bytes));
            let mut one = session_of(files.to_vec(), backend.as_ref(), 64);
            let mut each = session(name, backend.as_ref(), 64);
            let [one, each] = [&mut one, &mut each]
                .map(|session| pollster::block_on(session.last_logits(&prompt)).unwrap());
            assert_eq!(one, each, "{name} on {backend_name}");
        }
    }
}
