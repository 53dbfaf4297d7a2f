//! Two published models, SmolLM2-135M-Instruct in Q4_1 and Gemma 3 270M in Q4_K_M, against what
//! transformers and llama.cpp compute from the same files (`tests/published/make_fixtures.py`):
//! ids and text, logits, greedy texts, scores in line, and how well they foretell a book.
//!
//! The models are no part of the repository. `cargo xtask test --only real` fetches them and runs
//! these tests, on the CPU and on two software GPUs; a plain `cargo test` leaves them out.

mod fixture;
mod foretelling;
mod greedy;
mod in_line;
mod logits;
mod text;
mod worst;

/// Every test that runs a model, for each model on one kind of backend.
macro_rules! held_to_the_references {
    ($backend:ident) => {
        mod $backend {
            held_to_the_references! { $backend: smollm2 gemma3 }
        }
    };
    ($backend:ident: $($model:ident)*) => {
        $(mod $model {
            use crate::fixture::{Device, Published};

            fn model() -> Published {
                Published::on(stringify!($model), Device::$backend())
            }

            #[test]
            #[ignore = "needs the published models: cargo xtask test --only real"]
            fn its_logits_are_those_of_transformers() {
                crate::logits::hold(&model());
            }

            #[test]
            #[ignore = "needs the published models: cargo xtask test --only real"]
            fn its_greedy_texts_are_those_of_transformers() {
                crate::greedy::hold(&model());
            }

            #[test]
            #[ignore = "needs the published models: cargo xtask test --only real"]
            fn its_scores_in_line_are_those_of_passes_of_their_own() {
                crate::in_line::hold(&model());
            }

            #[test]
            #[ignore = "needs the published models: cargo xtask test --only real"]
            fn it_foretells_a_book_as_well_as_with_llama_cpp() {
                crate::foretelling::hold(&model());
            }
        })*
    };
}

held_to_the_references!(cpu);
held_to_the_references!(gpu);
