//! Three published models, SmolLM2-135M-Instruct in Q4_1, Gemma 3 270M and
//! Qwen2.5-Coder-0.5B-Instruct in Q4_K_M, against results of transformers and llama.cpp for the
//! same files (`tests/published/make_fixtures.py`): ids and text, logits, greedy texts, scores in
//! line, and the perplexity of a book.
//!
//! On lavapipe run the prompts of up to 128 tokens and one of 640, beyond Gemma's window; on
//! SwiftShader, and on both in a whole run of the tests, those of up to 40; the book on the CPU
//! alone (`fixture.rs`).
//!
//! The models are not part of the repository. `cargo xtask test --only real` fetches them and runs
//! these tests, on the CPU, on three of its threads and on two software GPUs; a plain `cargo test`
//! omits them.

mod fixture;
mod foretelling;
mod greedy;
mod in_line;
mod logits;
mod text;
mod worst;

/// A test of a model on a device, by the module that holds it.
macro_rules! test {
    ($device:ident $model:ident logits) => {
        test! { $device $model logits its_logits_are_those_of_transformers }
    };
    ($device:ident $model:ident greedy) => {
        test! { $device $model greedy its_greedy_texts_are_those_of_transformers }
    };
    ($device:ident $model:ident in_line) => {
        test! { $device $model in_line its_scores_in_line_are_those_of_passes_of_their_own }
    };
    ($device:ident $model:ident foretelling) => {
        test! { $device $model foretelling it_foretells_a_book_as_well_as_the_references }
    };
    ($device:ident $model:ident $module:ident $test:ident) => {
        #[test]
        #[ignore = "needs the published models: cargo xtask test --only real"]
        fn $test() {
            crate::$module::hold(&Published::on(stringify!($model), Device::$device()));
        }
    };
}

/// The tests of the models on each device.
macro_rules! held_to_the_references {
    ($($device:ident { $($model:ident: $($module:ident)+;)* })*) => {
        $(mod $device {
            $(mod $model {
                use crate::fixture::{Device, Published};

                $(test! { $device $model $module })+
            })*
        })*
    };
}

// On a software GPU Qwen2.5-Coder takes minutes.
held_to_the_references! {
    cpu {
        smollm2: logits greedy in_line foretelling;
        gemma3: logits greedy in_line foretelling;
        qwen_coder: logits greedy in_line foretelling;
    }
    threads {
        smollm2: logits in_line;
        gemma3: logits in_line;
        qwen_coder: in_line;
    }
    gpu {
        smollm2: logits greedy in_line;
        gemma3: logits greedy in_line;
    }
}
