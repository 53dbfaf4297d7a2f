//! The figures of `web/catalogue.json`: what each model's file and the model itself take, known
//! before anything is downloaded. Each is planned as its file would be, so that nothing that allocates
//! is written twice. A model that is new there has its figures by
//! `CONCLAVE_WRITE=1 cargo test -p conclave-model --test catalogue`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::ready;
use std::path::PathBuf;

use conclave_model::config::QkNorm;
use conclave_model::family::Family;
use conclave_model::{About, LoadOptions, about};
use conclave_weights::{Checkpoint, Format, Reading, Source, SourceFile};
use serde::Deserialize;

/// Tokens of context for which the working room is told: it hardly grows with them.
const CONTEXT: usize = 1024;

/// A token's text, score, type and merge rule in a GGUF file, measured over several families.
const BYTES_PER_TOKEN: u64 = 40;

/// Where tensors begin in a GGUF file.
const ALIGNMENT: u64 = 32;

#[derive(Deserialize)]
struct Catalogue {
    models: BTreeMap<String, Model>,
}

#[derive(Deserialize)]
struct Model {
    family: String,
    format: String,
    shape: Shape,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    layers: u64,
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head_dim: u64,
    feed_forward: u64,
    vocabulary: u64,
    /// The file holds one matrix for embedding and head.
    tied: bool,
    /// Query, key and value are one matrix, gate and up another.
    #[serde(default)]
    fused: bool,
    context: u64,
}

/// In which blocks a file has its matrices.
struct Blocks {
    plain: Format,
    /// Those of the matrices that a mixture keeps finer.
    fine: Format,
    /// Query, key and value in one.
    fused: Format,
}

impl Blocks {
    fn of(format: &str) -> Self {
        // llama.cpp's mixture of 4 bits, medium.
        if format == "Q4_K_M" {
            return Self {
                plain: Format::Q4K,
                fine: Format::Q6K,
                fused: Format::Q5K,
            };
        }
        let named = Format::ALL.into_iter().find(|f| f.name() == format);
        let plain = named.unwrap_or_else(|| panic!("which blocks has {format}?"));
        Self {
            plain,
            fine: plain,
            fused: plain,
        }
    }

    /// The blocks of `attn_v` and `ffn_down`: finer in the first and the last eighth of the layers,
    /// and in every third between.
    fn of_layer(&self, layer: u64, layers: u64) -> Format {
        let eighth = layers / 8;
        let finer = layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
        if finer { self.fine } else { self.plain }
    }
}

/// A tensor of the file: `[rows, cols]`, or one row.
struct Tensor {
    name: String,
    format: Format,
    rows: Option<u64>,
    cols: u64,
}

impl Tensor {
    fn bytes(&self) -> u64 {
        let row = self.format.bytes_of(self.cols as usize);
        row.expect("whole blocks") as u64 * self.rows.unwrap_or(1)
    }
}

impl Model {
    /// Its family's name in GGUF.
    fn architecture(&self) -> String {
        let name = self.family.to_lowercase().replace('.', "_");
        name.replace([' ', '-'], "")
    }

    fn tensors(&self) -> Vec<Tensor> {
        let s = &self.shape;
        let blocks = Blocks::of(&self.format);
        let (query, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
        let header = Header::of(self, &[]);
        let family = Family::of(&header.open()).expect("the family is known");
        let mut all = Vec::new();
        let mut add = |name: String, format, rows, cols| {
            all.push(Tensor {
                name: name + ".weight",
                format,
                rows,
                cols,
            });
        };
        let embedding = if s.tied { blocks.fine } else { blocks.plain };
        add("token_embd".into(), embedding, Some(s.vocabulary), s.hidden);
        if !s.tied {
            add("output".into(), blocks.fine, Some(s.vocabulary), s.hidden);
        }
        add("output_norm".into(), Format::F32, None, s.hidden);
        for layer in 0..s.layers {
            let mut add = |name: &str, format, rows, cols| {
                add(format!("blk.{layer}.{name}"), format, rows, cols);
            };
            let (plain, finer) = (blocks.plain, blocks.of_layer(layer, s.layers));
            if s.fused {
                add("attn_qkv", blocks.fused, Some(query + 2 * kv), s.hidden);
                add("ffn_up", plain, Some(2 * s.feed_forward), s.hidden);
            } else {
                add("attn_q", plain, Some(query), s.hidden);
                add("attn_k", plain, Some(kv), s.hidden);
                add("attn_v", finer, Some(kv), s.hidden);
                add("ffn_gate", plain, Some(s.feed_forward), s.hidden);
                add("ffn_up", plain, Some(s.feed_forward), s.hidden);
            }
            add("attn_output", plain, Some(s.hidden), query);
            add("ffn_down", finer, Some(s.hidden), s.feed_forward);
            let norms = [
                (family.norms.mixer, "attn_norm"),
                (family.norms.mixer_post, "post_attention_norm"),
                (family.norms.feed_forward, "ffn_norm"),
                (family.norms.feed_forward_post, "post_ffw_norm"),
            ];
            for (_, name) in norms.into_iter().filter(|(norm, _)| norm.is_some()) {
                add(name, Format::F32, None, s.hidden);
            }
            let of_heads = match family.qk_norm {
                QkNorm::None => None,
                QkNorm::PerHead | QkNorm::Rotated => Some([s.head_dim; 2]),
                QkNorm::Whole => Some([query, kv]),
            };
            for (name, width) in ["attn_q_norm", "attn_k_norm"]
                .into_iter()
                .zip(of_heads.into_iter().flatten())
            {
                add(name, Format::F32, None, width);
            }
        }
        if family.gguf == "qwen2" {
            for layer in 0..s.layers {
                for (name, width) in [("attn_q", query), ("attn_k", kv), ("attn_v", kv)] {
                    all.push(Tensor {
                        name: format!("blk.{layer}.{name}.bias"),
                        format: Format::F32,
                        rows: None,
                        cols: width,
                    });
                }
            }
        }
        all
    }

    /// What the catalogue says of it, as lines of JSON.
    fn figures(&self) -> String {
        let tensors = self.tensors();
        let header = Header::of(self, &tensors);
        let checkpoint = header.open();
        let told = |context| -> About {
            about(&checkpoint, LoadOptions::with_context(context)).expect("the shape is sound")
        };
        let [one, two, most] = [CONTEXT, 2 * CONTEXT, usize::MAX].map(|context| {
            let about = told(context);
            (about.context as u64, about.memory, about.memory_on_cpu)
        });
        let tokens = two.0 - one.0;
        let mut lines = format!(
            "      \"bytes\": {},\n      \"memory\": {{\n",
            header.file.bytes + self.shape.vocabulary * BYTES_PER_TOKEN
        );
        let all = [one, two, most];
        for (backend, [first, second, last], end) in [
            ("webgpu", all.map(|(_, on_gpu, _)| on_gpu), ","),
            ("cpu", all.map(|(_, _, on_cpu)| on_cpu), ""),
        ] {
            let a_token = (second.weights - first.weights) / tokens;
            let row = (second.kv - first.kv) / tokens;
            let (weights, kv) = (first.weights - one.0 * a_token, first.kv - one.0 * row);
            let scratch = first.scratch;
            assert_eq!(last.kv, kv + most.0 * row);
            assert_eq!(last.weights, weights + most.0 * a_token);
            let off = last.scratch.abs_diff(scratch);
            assert!(off * 100 < last.total(), "{off} of {last:?}");
            _ = writeln!(
                lines,
                r#"        "{backend}": {{ "weights": {weights}, "kv": {kv}, "scratch": {scratch}, "perToken": {{ "weights": {a_token}, "kv": {row} }} }}{end}"#
            );
        }
        lines + "      },\n"
    }
}

/// A file's first bytes; the rest is never read.
struct Header {
    bytes: Vec<u8>,
    file: SourceFile,
}

impl Header {
    fn of(model: &Model, tensors: &[Tensor]) -> Self {
        let s = &model.shape;
        let architecture = model.architecture();
        let sizes = [
            ("context_length", s.context),
            ("embedding_length", s.hidden),
            ("block_count", s.layers),
            ("feed_forward_length", s.feed_forward),
            ("attention.head_count", s.heads),
            ("attention.head_count_kv", s.kv_heads),
            ("attention.key_length", s.head_dim),
            ("attention.value_length", s.head_dim),
        ];
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        // Numbers of types: 4 a u32, 6 an f32, 8 a string.
        bytes.extend((tensors.len() as u64).to_le_bytes());
        bytes.extend((sizes.len() as u64 + 2).to_le_bytes());
        text(&mut bytes, "general.architecture");
        bytes.extend(8u32.to_le_bytes());
        text(&mut bytes, &architecture);
        let epsilon = format!("{architecture}.attention.layer_norm_rms_epsilon");
        text(&mut bytes, &epsilon);
        bytes.extend(6u32.to_le_bytes());
        bytes.extend(1e-5f32.to_le_bytes());
        for (name, size) in sizes {
            text(&mut bytes, &format!("{architecture}.{name}"));
            bytes.extend(4u32.to_le_bytes());
            bytes.extend((size as u32).to_le_bytes());
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

    fn open(&self) -> Checkpoint {
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

#[test]
fn the_catalogue_says_what_its_models_take() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web/catalogue.json");
    let found = std::fs::read_to_string(&path).unwrap();
    let Catalogue { models } = serde_json::from_str(&found).unwrap();
    // Figures stand between format and shape; all other lines stay as somebody wrote them.
    let (mut wanted, mut model, mut stale) = (String::new(), None, false);
    for line in found.split_inclusive('\n') {
        let key = line.trim_start().strip_prefix('"');
        let key = key.and_then(|rest| Some(rest.split_once("\": ")?.0));
        model = key.and_then(|key| models.get(key)).or(model);
        stale &= key != Some("shape");
        if !stale {
            wanted.push_str(line);
        }
        if let (Some("format"), Some(model)) = (key, model) {
            wanted.push_str(&model.figures());
            stale = true;
        }
    }
    if std::env::var_os("CONCLAVE_WRITE").is_some() {
        std::fs::write(path, wanted).unwrap();
    } else {
        let wrong = found.lines().zip(wanted.lines()).find(|(a, b)| a != b);
        let how = "CONCLAVE_WRITE=1 cargo test -p conclave-model --test catalogue";
        assert_eq!(wrong, None, "web/catalogue.json is out of date: {how}");
        assert_eq!(found, wanted, "web/catalogue.json is out of date: {how}");
    }
}
