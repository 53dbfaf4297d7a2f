//! The perplexity of some 2,000 tokens of a book, read like winning candidates: verified in line
//! and kept.

use crate::fixture::Published;

/// Tokens of a candidate.
const SEGMENT: usize = 64;

/// Largest relative difference from the perplexity of transformers.
const LIMIT: f64 = 2e-4;

/// Largest relative difference from llama.cpp's, which rounds activations to eight bits.
const LIMIT_OF_LLAMA_CPP: f64 = 2e-3;

/// Models for which llama.cpp itself differs more from transformers: by 2.1e-3.
const NOT_AS_LLAMA_CPP: [&str; 1] = ["qwen_coder"];

pub fn hold(model: &Published) {
    let wanted = &model.reference.perplexity;
    let ids = crate::text::ids_of(&model.reference, &wanted.text());
    assert_eq!(ids.len(), wanted.tokens);
    let mut session = model.session();
    session.release();
    // −Σ ln p of all ids but the first.
    pollster::block_on(session.prefill(&ids[..1])).unwrap();
    let mut loss = 0.0;
    for segment in ids[1..].chunks(SEGMENT) {
        let score = pollster::block_on(session.verify(&[segment.to_vec()], true)).unwrap()[0];
        loss -= score.mean_logprob.unwrap() * segment.len() as f64;
        pollster::block_on(session.keep(0, segment.len())).unwrap();
    }
    session.release();
    let found = (loss / (ids.len() - 1) as f64).exp();
    let [error, apart] = [wanted.transformers, wanted.value].map(|value| found / value - 1.0);
    let [percent, percent_apart] = [error, apart].map(|error| 100.0 * error);
    model.found(&format!(
        "perplexity {found:.4}, {percent:+.4} % of transformers', \
         {percent_apart:+.3} % of llama.cpp's"
    ));
    assert!(
        error.abs() <= LIMIT,
        "{}: {found}, that of transformers is {}",
        model.title(),
        wanted.transformers
    );
    assert!(
        apart.abs() <= LIMIT_OF_LLAMA_CPP || NOT_AS_LLAMA_CPP.contains(&model.name),
        "{}: {found}, llama.cpp's is {}",
        model.title(),
        wanted.value
    );
}
