//! Models with scripted output: a folder of real files whose weights make one token follow another.
//! There is no attention and no computation between; the output matrix maps each token to the next.

use conclave_member::Member;
use conclave_model::{Cpu, LoadOptions};
use conclave_weights::Memory;
use serde_json::json;

/// Width of a hidden state: one number for each token.
const WIDTH: usize = 192;

/// Properties of a speaker.
pub struct Speaker<'a> {
    /// Tokens beside single letters; those that begin with `<|` are control tokens.
    pub words: &'a [&'a str],
    /// Sequences of words that follow each other.
    pub says: &'a [&'a [&'a str]],
    /// Its chat template; without one it is a base model.
    pub template: Option<&'a str>,
    /// Tokens of context.
    pub context: usize,
    /// The word after which its logits are NaN.
    pub broken: Option<&'a str>,
    /// Control tokens that the tokenizer lists and the model lacks.
    pub beyond: usize,
    /// Letters of the tokenizer beyond the model's rows.
    pub letters_beyond: usize,
}

impl Speaker<'_> {
    /// Its files.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let letters = (' '..='~').chain(['\n']).map(String::from);
        let mut tokens: Vec<String> = letters.collect();
        let first_word = tokens.len();
        tokens.extend(self.words.iter().map(|&word| word.to_owned()));
        let rows = tokens.len();
        assert!(rows <= WIDTH);
        let beyond = (0..self.beyond).map(|number| format!("<|beyond{number}|>"));
        let added: Vec<String> = tokens[first_word..].iter().cloned().chain(beyond).collect();
        let id = |word: &str| tokens.iter().position(|token| token == word).unwrap();
        let mut vocab: serde_json::Map<_, _> = tokens[..first_word]
            .iter()
            .enumerate()
            .map(|(id, token)| (token.clone(), json!(id)))
            .collect();
        for letter in 0..self.letters_beyond {
            let letter = char::from_u32('α' as u32 + letter as u32).unwrap();
            vocab.insert(
                letter.to_string(),
                json!(rows + self.beyond + letter as usize - 'α' as usize),
            );
        }
        let added: Vec<_> = (first_word..)
            .zip(&added)
            .map(|(id, token)| {
                json!({"id": id, "content": token, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": token.starts_with("<|")})
            })
            .collect();
        let tokenizer = json!({
            "version": "1.0", "added_tokens": added, "normalizer": null, "pre_tokenizer": null,
            "post_processor": null, "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "vocab": vocab, "merges": []},
        });
        let tokenizer_config = json!({
            "eos_token": "<|end|>", "chat_template": self.template,
            "tokenizer_class": "PreTrainedTokenizerFast",
        });
        let config = json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": rows,
            "hidden_size": WIDTH, "intermediate_size": 32, "num_hidden_layers": 1,
            "num_attention_heads": 2, "num_key_value_heads": 1, "rms_norm_eps": 1e-6,
            "max_position_embeddings": self.context, "rope_theta": 10000.0, "hidden_act": "silu",
            "tie_word_embeddings": false, "eos_token_id": id("<|end|>"),
        });
        let (mut embedding, mut head) = (vec![0.0_f32; rows * WIDTH], vec![0.0_f32; rows * WIDTH]);
        for token in 0..rows {
            embedding[token * WIDTH + token] = 1.0;
        }
        if let Some(word) = self.broken {
            embedding[id(word) * WIDTH..][..WIDTH].fill(f32::NAN);
        }
        for pair in self.says.iter().flat_map(|row| row.windows(2)) {
            head[id(pair[1]) * WIDTH + id(pair[0])] = 1.0;
        }
        let zeros = |count: usize| vec![0.0_f32; count];
        let ones = vec![1.0_f32; WIDTH];
        let kv = WIDTH / 2;
        let layer = |name: &str| format!("model.layers.0.{name}.weight");
        let tensors = [
            (
                "model.embed_tokens.weight".to_owned(),
                vec![rows, WIDTH],
                embedding,
            ),
            ("lm_head.weight".to_owned(), vec![rows, WIDTH], head),
            ("model.norm.weight".to_owned(), vec![WIDTH], ones.clone()),
            (layer("input_layernorm"), vec![WIDTH], ones.clone()),
            (layer("post_attention_layernorm"), vec![WIDTH], ones),
            (
                layer("self_attn.q_proj"),
                vec![WIDTH, WIDTH],
                zeros(WIDTH * WIDTH),
            ),
            (
                layer("self_attn.k_proj"),
                vec![kv, WIDTH],
                zeros(kv * WIDTH),
            ),
            (
                layer("self_attn.v_proj"),
                vec![kv, WIDTH],
                zeros(kv * WIDTH),
            ),
            (
                layer("self_attn.o_proj"),
                vec![WIDTH, WIDTH],
                zeros(WIDTH * WIDTH),
            ),
            (layer("mlp.gate_proj"), vec![32, WIDTH], zeros(32 * WIDTH)),
            (layer("mlp.up_proj"), vec![32, WIDTH], zeros(32 * WIDTH)),
            (layer("mlp.down_proj"), vec![WIDTH, 32], zeros(32 * WIDTH)),
        ];
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, shape, numbers) in tensors {
            let begin = data.len();
            data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            let entry =
                json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]});
            header.insert(name, entry);
        }
        let header = serde_json::to_vec(&header).unwrap();
        let mut weights = (header.len() as u64).to_le_bytes().to_vec();
        weights.extend(header);
        weights.extend(data);
        let file =
            |name: &str, json: &serde_json::Value| (name.to_owned(), json.to_string().into_bytes());
        vec![
            file("config.json", &config),
            file("tokenizer.json", &tokenizer),
            file("tokenizer_config.json", &tokenizer_config),
            ("model.safetensors".to_owned(), weights),
        ]
    }

    /// Writes them into a folder.
    #[allow(dead_code, reason = "each file of tests uses some of this one")]
    pub fn write(&self, folder: &std::path::Path) {
        std::fs::create_dir_all(folder).unwrap();
        for (name, bytes) in self.files() {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }

    /// The member of these files, on the CPU.
    #[allow(dead_code, reason = "each file of tests uses some of this one")]
    pub fn load(&self, context: usize) -> Result<Member, conclave_member::MemberError> {
        let source = Memory::new(self.files());
        let options = LoadOptions::with_context(context);
        let mut silent = |_| ();
        let load = Member::load("speaker", &source, &Cpu::ALONE, options, &mut silent);
        pollster::block_on(load)
    }
}
