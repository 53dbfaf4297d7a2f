//! A model whose heads no kernel reads: burn's GPU runs it in tensor operations alone, and is held
//! to our products on the CPU. (`conclave_model::memory::check_heads` says which those are.)

#[path = "../../model/tests/held/session.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod session;

use conclave_burn::Burn;
use conclave_kernels::{AdapterChoice, Launcher};
use conclave_model::{Backend, Cpu, LoadOptions, Model, ModelError, Session};
use conclave_weights::{Checkpoint, Memory};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::json;

use session::{relative_error, session_of};

/// Numbers in a head: no multiple of four.
const WIDTH: usize = 6;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HIDDEN: usize = 20;
const WIDE: usize = 36;
const VOCABULARY: usize = 59;

/// A folder of random weights.
fn folder() -> Vec<(String, Vec<u8>)> {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let begin = data.len();
        for _ in 0..shape.iter().product::<usize>() {
            let number = random.next_u32() as f32 / u32::MAX as f32 - 0.5;
            // Norms about one, all else small.
            let number = if shape.len() == 1 {
                1.0 + number
            } else {
                number / 2.0
            };
            data.extend(number.to_le_bytes());
        }
        let offsets = [begin, data.len()];
        let tensor = json!({ "dtype": "F32", "shape": shape, "data_offsets": offsets });
        header.insert(name, tensor);
    };
    add("model.embed_tokens.weight".into(), &[VOCABULARY, HIDDEN]);
    add("model.norm.weight".into(), &[HIDDEN]);
    for layer in 0..2 {
        let of = |part: &str| format!("model.layers.{layer}.{part}.weight");
        add(of("input_layernorm"), &[HIDDEN]);
        add(of("post_attention_layernorm"), &[HIDDEN]);
        add(of("self_attn.q_proj"), &[HEADS * WIDTH, HIDDEN]);
        add(of("self_attn.k_proj"), &[KV_HEADS * WIDTH, HIDDEN]);
        add(of("self_attn.v_proj"), &[KV_HEADS * WIDTH, HIDDEN]);
        add(of("self_attn.o_proj"), &[HIDDEN, HEADS * WIDTH]);
        add(of("mlp.gate_proj"), &[WIDE, HIDDEN]);
        add(of("mlp.up_proj"), &[WIDE, HIDDEN]);
        add(of("mlp.down_proj"), &[HIDDEN, WIDE]);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let mut weights = (header.len() as u64).to_le_bytes().to_vec();
    weights.extend(header);
    weights.extend(data);
    let config = json!({
        "model_type": "mistral", "hidden_size": HIDDEN, "intermediate_size": WIDE,
        "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "head_dim": WIDTH, "vocab_size": VOCABULARY, "max_position_embeddings": 512,
        "sliding_window": 24, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "tie_word_embeddings": true, "hidden_act": "silu",
    });
    let config = serde_json::to_vec(&config).unwrap();
    vec![
        ("config.json".to_owned(), config),
        ("model.safetensors".to_owned(), weights),
    ]
}

fn ids(first: u32, count: u32) -> Vec<u32> {
    (0..count)
        .map(|i| (first + 7 * i) % VOCABULARY as u32)
        .collect()
}

/// Logits of a prompt longer than the window; scores in line, and what follows the winner.
fn run(backend: &dyn Backend) -> (Vec<Vec<f32>>, Vec<f64>, Vec<f32>) {
    let mut session = session_of(folder(), backend, 128);
    let logits = pollster::block_on(session.all_logits(&ids(3, 40))).unwrap();
    let candidates = [ids(1, 5), ids(2, 9), ids(4, 3)];
    let scores = pollster::block_on(session.verify(&candidates, true)).unwrap();
    pollster::block_on(session.keep(1, 9)).unwrap();
    let next = pollster::block_on(session.next_logits()).unwrap();
    let scores = scores.iter().map(|score| score.mean_logprob.unwrap());
    (logits, scores.collect(), next)
}

#[test]
fn heads_that_no_kernel_reads_run_on_burn() {
    let gpu = pollster::block_on(Burn::wgpu()).expect("a Vulkan driver is installed");
    let (logits, scores, next) = run(&Cpu::ALONE);
    let (found, found_scores, found_next) = run(&gpu);
    for (found, wanted) in found.iter().zip(&logits) {
        let error = relative_error(found, wanted);
        assert!(error < 1e-4, "{error:e}");
    }
    for (found, wanted) in found_scores.iter().zip(&scores) {
        assert!(
            (found - wanted).abs() < 1e-4 * wanted.abs(),
            "{found} is not {wanted}"
        );
    }
    let error = relative_error(&found_next, &next);
    assert!(error < 1e-4, "{error:e}");
}

/// The page takes the open core by itself where the fused engine says so.
#[test]
fn the_fused_engine_says_that_it_has_no_plan() {
    let gpu = pollster::block_on(Launcher::init(AdapterChoice::Best))
        .expect("a Vulkan driver is installed");
    let source = Memory::new(folder());
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    let options = LoadOptions::with_context(128);
    let mut silent = |_| ();
    let load = Model::load(&checkpoint, &source, &gpu, options, &mut silent);
    let refused = pollster::block_on(load).map(Session::new);
    assert!(
        matches!(refused, Err(ModelError::HeadWidth { width: WIDTH })),
        "{refused:?}"
    );
}
