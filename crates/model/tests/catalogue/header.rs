//! The header of a GGUF file that does not exist, of a model's shape.

use std::future::ready;

use conclave_weights::{Checkpoint, Reading, Source, SourceFile};

use super::{ALIGNMENT, Model, Tensor};

/// A file's first bytes; the rest is never read.
pub struct Header {
    bytes: Vec<u8>,
    pub file: SourceFile,
}

impl Header {
    pub fn new(model: &Model, tensors: &[Tensor]) -> Self {
        let s = &model.shape;
        let architecture = model.architecture();
        let further = s.recurrent.as_ref().map_or(0, |of| of.further);
        let mut sizes = vec![
            ("context_length", s.context),
            ("embedding_length", s.hidden),
            ("block_count", s.layers + further),
            ("attention.head_count", s.heads),
        ];
        let mut widths = [s.head_dim; 2];
        // One number, or one a layer: where those that are recurrences have none, where late ones
        // are wider.
        let (mut kv_heads, mut feed_forward) = (vec![s.kv_heads], vec![s.feed_forward]);
        let mut windows = Vec::new();
        if let Some(of) = &s.recurrent {
            sizes.extend([
                ("ssm.conv_kernel", of.taps),
                ("ssm.state_size", of.key_width),
                ("ssm.group_count", of.key_heads),
                ("ssm.time_step_rank", of.value_heads),
                ("ssm.inner_size", of.values()),
                ("nextn_predict_layers", further),
            ]);
        }
        if let Some(of) = &s.per_layer {
            widths = [of.see_all_head_dim; 2];
            sizes.extend([
                ("attention.key_length_swa", s.head_dim),
                ("attention.value_length_swa", s.head_dim),
                ("rope.dimension_count_swa", s.head_dim),
                ("attention.sliding_window", of.window),
                ("attention.shared_kv_layers", s.layers - of.shared_from),
                ("embedding_length_per_layer_input", of.width),
            ]);
            windows = (0..s.layers)
                .map(|layer| !of.see_all.contains(&layer))
                .collect();
            feed_forward = (0..s.layers).map(|layer| s.feed_forward(layer)).collect();
        }
        sizes.extend(
            ["attention.key_length", "attention.value_length"]
                .into_iter()
                .zip(widths),
        );
        if let Some(of) = &s.convolutions {
            sizes.push(("shortconv.l_cache", of.taps));
        }
        if ["granitehybrid", "lfm2"].contains(&architecture.as_str()) {
            let heads = |layer| if s.attends(layer) { s.kv_heads } else { 0 };
            kv_heads = (0..s.layers).map(heads).collect();
        }
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        // Numbers of types: 4 a u32, 6 an f32, 7 a truth value, 8 a string, 9 an array.
        bytes.extend((tensors.len() as u64).to_le_bytes());
        let keys = sizes.len() + 4 + usize::from(!windows.is_empty());
        bytes.extend((keys as u64).to_le_bytes());
        text(&mut bytes, "general.architecture");
        bytes.extend(8_u32.to_le_bytes());
        text(&mut bytes, &architecture);
        let epsilon = format!("{architecture}.attention.layer_norm_rms_epsilon");
        text(&mut bytes, &epsilon);
        bytes.extend(6_u32.to_le_bytes());
        bytes.extend(1e-5_f32.to_le_bytes());
        for (name, size) in sizes {
            text(&mut bytes, &format!("{architecture}.{name}"));
            bytes.extend(4_u32.to_le_bytes());
            bytes.extend((size as u32).to_le_bytes());
        }
        for (name, listed) in [
            ("attention.head_count_kv", kv_heads),
            ("feed_forward_length", feed_forward),
        ] {
            text(&mut bytes, &format!("{architecture}.{name}"));
            if listed.len() > 1 {
                bytes.extend(9_u32.to_le_bytes());
                bytes.extend(4_u32.to_le_bytes());
                bytes.extend((listed.len() as u64).to_le_bytes());
            } else {
                bytes.extend(4_u32.to_le_bytes());
            }
            bytes.extend(listed.iter().flat_map(|&size| (size as u32).to_le_bytes()));
        }
        if !windows.is_empty() {
            let name = "attention.sliding_window_pattern";
            text(&mut bytes, &format!("{architecture}.{name}"));
            bytes.extend(9_u32.to_le_bytes());
            bytes.extend(7_u32.to_le_bytes());
            bytes.extend((windows.len() as u64).to_le_bytes());
            bytes.extend(windows.into_iter().map(u8::from));
        }
        let mut offset = 0;
        for tensor in tensors {
            text(&mut bytes, &tensor.name);
            let shape = [Some(tensor.cols), tensor.rows];
            bytes.extend((shape.iter().flatten().count() as u32).to_le_bytes());
            for size in shape.into_iter().flatten() {
                bytes.extend(size.to_le_bytes());
            }
            let ggml_type = tensor.format.ggml_type().expect("a type of GGUF");
            bytes.extend(ggml_type.to_le_bytes());
            bytes.extend(u64::to_le_bytes(offset));
            offset += tensor.bytes().next_multiple_of(ALIGNMENT);
        }
        let begin = (bytes.len() as u64).next_multiple_of(ALIGNMENT);
        let file = SourceFile {
            name: "model.gguf".to_owned(),
            bytes: begin + offset,
        };
        Self { bytes, file }
    }

    pub fn open(&self) -> Checkpoint {
        pollster::block_on(Checkpoint::open(self)).expect("the header is sound")
    }
}

impl Source for Header {
    fn files(&self) -> &[SourceFile] {
        std::slice::from_ref(&self.file)
    }

    fn read<'a>(&'a self, _: usize, offset: u64, into: &'a mut [u8]) -> Reading<'a> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        into[count..].fill(0);
        Box::pin(ready(Ok(())))
    }
}
