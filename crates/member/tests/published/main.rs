//! Two published models, SmolLM2-135M-Instruct in Q4_1 and Gemma 3 270M in Q4_K_M, against results
//! of transformers and llama.cpp for the same files (`tests/published/make_fixtures.py`): ids and
//! text, logits, greedy texts, scores in line, and the perplexity of a book.
//!
//! On lavapipe run the prompts of up to 128 tokens and one of 640, beyond Gemma's window; on
//! SwiftShader those of up to 40; the book on the CPU alone (`fixture.rs`).
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

/// The tests of each model on a device, by the modules that hold them.
macro_rules! held_to_the_references {
    ($($device:ident { $($module:ident: $test:ident;)* })*) => {
        $(mod $device {
            held_to_the_references! { $device smollm2 $($module: $test;)* }
            held_to_the_references! { $device gemma3 $($module: $test;)* }
        })*
    };
    ($device:ident $model:ident $($module:ident: $test:ident;)*) => {
        mod $model {
            use crate::fixture::{Device, Published};

            $(#[test]
            #[ignore = "needs the published models: cargo xtask test --only real"]
            fn $test() {
                crate::$module::hold(&Published::on(stringify!($model), Device::$device()));
            })*
        }
    };
}

held_to_the_references! {
    cpu {
        logits: its_logits_are_those_of_transformers;
        greedy: its_greedy_texts_are_those_of_transformers;
        in_line: its_scores_in_line_are_those_of_passes_of_their_own;
        foretelling: it_foretells_a_book_as_well_as_with_llama_cpp;
    }
    threads {
        logits: its_logits_are_those_of_transformers;
        in_line: its_scores_in_line_are_those_of_passes_of_their_own;
    }
    gpu {
        logits: its_logits_are_those_of_transformers;
        greedy: its_greedy_texts_are_those_of_transformers;
        in_line: its_scores_in_line_are_those_of_passes_of_their_own;
    }
}
