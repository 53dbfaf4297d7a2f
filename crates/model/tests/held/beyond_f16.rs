//! BF16 reaches further than the F16 that the GPU keeps it in: such a matrix stays right all the
//! same.

use crate::backends;
use crate::session::{fixture, relative_error, session_of};

/// The bytes of a tensor in a safetensors file.
pub fn tensor<'a>(file: &'a mut [u8], name: &str) -> &'a mut [u8] {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    assert_eq!(header[name]["dtype"], "BF16");
    let at = |end: usize| header[name]["data_offsets"][end].as_u64().unwrap() as usize;
    let (begin, end) = (at(0), at(1));
    &mut file[8 + length..][begin..end]
}

/// A file whose tensors are BF16, with the same numbers in F32.
fn in_f32(file: &[u8]) -> Vec<u8> {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&file[8..8 + length]).unwrap();
    for (name, tensor) in header.as_object_mut().unwrap() {
        if name != "__metadata__" {
            assert_eq!(tensor["dtype"], "BF16");
            tensor["dtype"] = "F32".into();
            for offset in tensor["data_offsets"].as_array_mut().unwrap() {
                *offset = (2 * offset.as_u64().unwrap()).into();
            }
        }
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut wide = (header.len() as u64).to_le_bytes().to_vec();
    wide.extend(header);
    // BF16 is the upper half of F32.
    let numbers = file[8 + length..].chunks_exact(2);
    wide.extend(numbers.flat_map(|number| [0, 0, number[0], number[1]]));
    wide
}

#[test]
fn numbers_that_f16_cannot_hold_are_right_on_every_backend() {
    let read = |file: &str| std::fs::read(fixture("mistral-hf").join(file)).unwrap();
    let mut weights = read("model.safetensors");
    for name in [
        "model.layers.0.mlp.up_proj.weight",
        "model.layers.1.self_attn.v_proj.weight",
    ] {
        let bytes = tensor(&mut weights, name);
        let last = bytes.len() - 2;
        // 2^17 and −2^17, in the first row and in the last.
        bytes[..2].copy_from_slice(&0x4800_u16.to_le_bytes());
        bytes[last..].copy_from_slice(&0xc800_u16.to_le_bytes());
    }
    let files = |weights| {
        vec![
            ("config.json".to_owned(), read("config.json")),
            ("model.safetensors".to_owned(), weights),
        ]
    };
    let prompt: Vec<u32> = (8..40).collect();
    for (name, backend) in backends() {
        let [found, wanted] = [weights.clone(), in_f32(&weights)].map(|weights| {
            let mut session = session_of(files(weights), backend.as_ref(), 64);
            pollster::block_on(session.all_logits(&prompt)).unwrap()
        });
        for (found, wanted) in found.iter().zip(&wanted) {
            assert!(wanted.iter().all(|logit| logit.is_finite()));
            let error = relative_error(found, wanted);
            assert!(error < 1e-4, "{name}: {error:e}");
        }
    }
}
