//! The figures of `web/catalogue.json`: sizes of each model's file and in memory, by its plan. They
//! are written by `CONCLAVE_WRITE=1 cargo test -p conclave-model --test catalogue`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use conclave_model::config::QkNorm;
use conclave_model::family::Family;
use conclave_model::{About, LoadOptions, about};
use conclave_weights::Format;
use serde::Deserialize;

#[path = "catalogue/header.rs"]
mod header;

use header::Header;

/// Tokens of context for the size of the working room, which hardly grows with them.
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
    /// Most of its layers are recurrences.
    recurrent: Option<Recurrent>,
    /// Most of its layers are gated convolutions.
    convolutions: Option<Convolutions>,
    /// It has an embedding for each layer, and heads and widths that differ from layer to layer.
    per_layer: Option<PerLayer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PerLayer {
    /// A layer's part of a token.
    width: u64,
    window: u64,
    /// The layers that see everything, and the width of their heads.
    see_all: Vec<u64>,
    see_all_head_dim: u64,
    /// The first layer that attends to another's keys and values; from there on MLPs are this wide.
    shared_from: u64,
    shared_feed_forward: u64,
}

impl PerLayer {
    /// Tensors in the files, outside of the layers and inside of them.
    fn tensors(&self, s: &Shape, table: Format) -> Vec<Tensor> {
        let all = s.layers * self.width;
        let of = |name: String, format, rows, cols| Tensor {
            name: format!("{name}.weight"),
            format,
            rows,
            cols,
        };
        let of_model = [
            of(
                "per_layer_token_embd".into(),
                table,
                Some(s.vocabulary),
                all,
            ),
            // llama.cpp quantises it in no file.
            of(
                "per_layer_model_proj".into(),
                Format::BF16,
                Some(all),
                s.hidden,
            ),
            of("per_layer_proj_norm".into(), Format::F32, None, self.width),
        ];
        let of_layers = (0..s.layers).flat_map(|layer| {
            let name = |name: &str| format!("blk.{layer}.{name}");
            [
                of(name("inp_gate"), Format::Q5K, Some(self.width), s.hidden),
                of(name("proj"), Format::Q5K, Some(s.hidden), self.width),
                of(name("post_norm"), Format::F32, None, s.hidden),
                of(name("layer_output_scale"), Format::F32, None, 1),
            ]
        });
        of_model.into_iter().chain(of_layers).collect()
    }
}

#[derive(Deserialize)]
struct Convolutions {
    /// The layers that attend.
    attend: Vec<u64>,
    taps: u64,
}

impl Convolutions {
    /// Tensors in place of an attention's.
    fn tensors(&self, hidden: u64, plain: Format) -> Vec<Tensor> {
        let of = |name: &str, format, rows, cols| Tensor {
            name: name.to_owned(),
            format,
            rows: Some(rows),
            cols,
        };
        vec![
            of("shortconv.in_proj.weight", plain, 3 * hidden, hidden),
            of("shortconv.conv.weight", Format::F32, hidden, self.taps),
            of("shortconv.out_proj.weight", plain, hidden, hidden),
        ]
    }
}

impl Shape {
    fn head_dim(&self, layer: u64) -> u64 {
        let wide = self.per_layer.as_ref();
        let wide = wide.filter(|of| of.see_all.contains(&layer));
        wide.map_or(self.head_dim, |of| of.see_all_head_dim)
    }

    fn feed_forward(&self, layer: u64) -> u64 {
        let shared = self.per_layer.as_ref();
        let shared = shared.filter(|of| layer >= of.shared_from);
        shared.map_or(self.feed_forward, |of| of.shared_feed_forward)
    }

    /// Whether a block attends: those that predict tokens further on do.
    fn attends(&self, block: u64) -> bool {
        let recurrent = self.recurrent.as_ref().map(|of| &of.attend);
        let convolutions = self.convolutions.as_ref().map(|of| &of.attend);
        let listed = recurrent.or(convolutions);
        block >= self.layers || listed.is_none_or(|attend| attend.contains(&block))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recurrent {
    /// The layers that attend.
    attend: Vec<u64>,
    key_heads: u64,
    key_width: u64,
    value_heads: u64,
    value_width: u64,
    taps: u64,
    /// Blocks after the layers that predict tokens further on, which are not read.
    #[serde(default)]
    further: u64,
}

impl Recurrent {
    fn values(&self) -> u64 {
        self.value_heads * self.value_width
    }

    fn channels(&self) -> u64 {
        2 * self.key_heads * self.key_width + self.values()
    }

    /// Tensors of its family's files in place of an attention's.
    fn tensors(&self, family: &str, hidden: u64, plain: Format) -> Vec<Tensor> {
        let heads = self.value_heads;
        let [values, channels] = [self.values(), self.channels()];
        let of = |name: &str, format, rows, cols| Tensor {
            name: name.to_owned(),
            format,
            rows,
            cols,
        };
        let mut all = vec![
            of("ssm_conv1d.weight", Format::F32, Some(channels), self.taps),
            of("ssm_dt.bias", Format::F32, None, heads),
            of("ssm_out.weight", plain, Some(hidden), values),
        ];
        all.extend(match family {
            "qwen35" => vec![
                of("attn_qkv.weight", plain, Some(channels), hidden),
                of("attn_gate.weight", plain, Some(values), hidden),
                of("ssm_beta.weight", plain, Some(heads), hidden),
                of("ssm_alpha.weight", plain, Some(heads), hidden),
                of("ssm_a", Format::F32, None, heads),
                of("ssm_norm.weight", Format::F32, None, self.value_width),
            ],
            "granitehybrid" => {
                let all = values + channels + heads;
                vec![
                    of("ssm_in.weight", plain, Some(all), hidden),
                    of("ssm_conv1d.bias", Format::F32, None, channels),
                    of("ssm_a", Format::F32, Some(heads), 1),
                    of("ssm_d", Format::F32, Some(heads), 1),
                    of("ssm_norm.weight", Format::F32, Some(1), values),
                ]
            }
            _ => panic!("{family} has no recurrences"),
        });
        all
    }
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
    fn named(format: &str) -> Self {
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

    /// The blocks of `attn_v` and `ffn_down`: finer in the outer eighths and every third between.
    fn of_layer(&self, layer: u64, layers: u64) -> Format {
        let eighth = layers / 8;
        let finer = layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
        if finer { self.fine } else { self.plain }
    }
}

/// The format that llama.cpp takes in place of one whose blocks of 256 do not divide a row.
fn in_whole_blocks(format: Format, cols: u64) -> Format {
    match format {
        _ if cols.is_multiple_of(256) => format,
        Format::Q4K => Format::Q5_0,
        Format::Q5K => Format::Q5_1,
        Format::Q6K => Format::Q8_0,
        other => other,
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
        let name = self.family.to_lowercase().replace([' ', '-'], "");
        match (name.as_str(), &self.shape.recurrent) {
            ("qwen3.5", _) => "qwen35".to_owned(),
            ("granite", Some(_)) => "granitehybrid".to_owned(),
            ("lfm2.5", _) => "lfm2".to_owned(),
            _ => name.replace('.', "_"),
        }
    }

    fn tensors(&self) -> Vec<Tensor> {
        let s = &self.shape;
        let blocks = Blocks::named(&self.format);
        // A header without any tensor would be refused.
        let any = Tensor {
            name: "output_norm.weight".into(),
            format: Format::F32,
            rows: None,
            cols: s.hidden,
        };
        let header = Header::new(self, &[any]);
        let family = Family::detect(&header.open()).expect("the family is known");
        let own = |usual: &'static str| {
            let renamed = family.renamed.iter().find(|(name, _)| *name == usual);
            renamed.map_or(usual, |(_, own)| own)
        };
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
        add(own("output_norm").into(), Format::F32, None, s.hidden);
        let further = s.recurrent.as_ref().map_or(0, |of| of.further);
        for layer in 0..s.layers + further {
            let mut add = |name: &str, format, rows, cols| {
                add(format!("blk.{layer}.{name}"), format, rows, cols);
            };
            let (plain, finer) = (blocks.plain, blocks.of_layer(layer, s.layers));
            let (head_dim, feed_forward) = (s.head_dim(layer), s.feed_forward(layer));
            let (query, kv) = (s.heads * head_dim, s.kv_heads * head_dim);
            if layer >= s.layers {
                add("nextn.eh_proj", plain, Some(s.hidden), 2 * s.hidden);
            }
            if s.fused {
                add("attn_qkv", blocks.fused, Some(query + 2 * kv), s.hidden);
                add("ffn_up", plain, Some(2 * feed_forward), s.hidden);
            } else {
                add("ffn_gate", plain, Some(feed_forward), s.hidden);
                add("ffn_up", plain, Some(feed_forward), s.hidden);
            }
            if !s.fused && s.attends(layer) {
                // In Qwen3.5 a gate follows each query head.
                let gates = if family.gguf == "qwen35" { 2 } else { 1 };
                add("attn_q", plain, Some(gates * query), s.hidden);
                add("attn_k", plain, Some(kv), s.hidden);
                add("attn_v", finer, Some(kv), s.hidden);
            }
            if s.attends(layer) {
                add("attn_output", plain, Some(s.hidden), query);
            }
            add("ffn_down", finer, Some(s.hidden), feed_forward);
            let norms = [
                (family.norms.mixer, "attn_norm"),
                (family.norms.mixer_post, "post_attention_norm"),
                (family.norms.feed_forward, "ffn_norm"),
                (family.norms.feed_forward_post, "post_ffw_norm"),
            ];
            for (_, name) in norms.into_iter().filter(|(norm, _)| norm.is_some()) {
                add(own(name), Format::F32, None, s.hidden);
            }
            if !s.attends(layer) {
                continue;
            }
            let of_heads = match family.qk_norm {
                QkNorm::None => None,
                QkNorm::PerHead | QkNorm::Rotated => Some([head_dim; 2]),
                QkNorm::Whole => Some([query, kv]),
            };
            for (name, width) in ["attn_q_norm", "attn_k_norm"]
                .into_iter()
                .zip(of_heads.into_iter().flatten())
            {
                add(name, Format::F32, None, width);
            }
        }
        for layer in (0..s.layers).filter(|&layer| !s.attends(layer)) {
            let recurrent = s.recurrent.iter();
            let recurrent = recurrent.map(|of| of.tensors(family.gguf, s.hidden, blocks.plain));
            let convolutions = s.convolutions.iter();
            let convolutions = convolutions.map(|of| of.tensors(s.hidden, blocks.plain));
            let tensors = recurrent.chain(convolutions).flatten();
            all.extend(tensors.map(|tensor| Tensor {
                name: format!("blk.{layer}.{}", tensor.name),
                ..tensor
            }));
        }
        let per_layer = s.per_layer.iter();
        all.extend(per_layer.flat_map(|of| of.tensors(s, blocks.fine)));
        for tensor in &mut all {
            tensor.format = in_whole_blocks(tensor.format, tensor.cols);
        }
        if family.gguf == "qwen2" {
            let (query, kv) = (s.heads * s.head_dim, s.kv_heads * s.head_dim);
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

    /// Bytes that its matrices take on the CPU in a page beyond those here: in wasm a number of
    /// Q6_K is kept in a byte, natively in six bits. Layers that attend to another's values load
    /// none.
    fn more_in_wasm(&self, tensors: &[Tensor]) -> u64 {
        let shared = self.shape.per_layer.as_ref();
        let unused = shared.map_or(vec![], |of| {
            let layers = of.shared_from..self.shape.layers;
            layers
                .map(|layer| format!("blk.{layer}.attn_v.weight"))
                .collect()
        });
        let bytes = tensors.iter().filter(|one| one.format == Format::Q6K);
        let used = bytes.filter(|one| !unused.contains(&one.name));
        used.map(|one| one.rows.unwrap_or(1).next_multiple_of(8) * one.cols / 4)
            .sum()
    }

    /// Its entry of the catalogue, as lines of JSON.
    fn figures(&self) -> String {
        let tensors = self.tensors();
        let header = Header::new(self, &tensors);
        let checkpoint = header.open();
        let about_with = |context| -> About {
            about(&checkpoint, LoadOptions::with_context(context)).expect("the shape is sound")
        };
        let [one, two, most] = [CONTEXT, 2 * CONTEXT, usize::MAX].map(|context| {
            let about = about_with(context);
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
            let weights = match backend {
                "cpu" => weights + self.more_in_wasm(&tensors),
                _ => weights,
            };
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

#[test]
fn the_catalogue_says_what_its_models_take() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web/catalogue.json");
    let found = std::fs::read_to_string(&path).unwrap();
    let Catalogue { models } = serde_json::from_str(&found).unwrap();
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

/// Scale of a Gemma's attention in a GGUF file.
fn attention_scale(family: &str, [layers, hidden, heads, head_dim]: [u64; 4]) -> f32 {
    let model: Model = serde_json::from_value(serde_json::json!({
        "family": family,
        "format": "Q8_0",
        "shape": {
            "layers": layers, "hidden": hidden, "heads": heads, "kvHeads": heads / 2,
            "headDim": head_dim, "feedForward": 256, "vocabulary": 256, "tied": true,
            "context": 8192,
        },
    }))
    .unwrap();
    let header = Header::new(&model, &model.tensors());
    let about = about(&header.open(), LoadOptions::with_context(CONTEXT)).unwrap();
    about.config.attention_scale
}

/// `query_pre_attn_scalar` of the models' `config.json`, which their GGUF files lack.
#[test]
fn a_gemma_of_27b_scales_its_queries_by_hidden_over_heads() {
    for (family, shape, scalar) in [
        ("Gemma 2", [26, 2304, 8, 256], 256.0_f32),
        ("Gemma 2", [46, 4608, 32, 128], 144.0),
        ("Gemma 3", [48, 3840, 16, 256], 256.0),
        ("Gemma 3", [62, 5376, 32, 128], 168.0),
    ] {
        let scale = attention_scale(family, shape);
        assert!(
            (scale * scalar.sqrt() - 1.0).abs() < 1e-6,
            "{family} {shape:?}: {scale}"
        );
    }
}
