//! Greedy texts whose every choice is clear, and where they end.

use conclave_model::{Sampler, Sampling};
use conclave_text::Tokenizer;
use conclave_weights::Checkpoint;

use crate::fixture::{Greedy, Published};

pub fn hold(model: &Published) {
    let source = model.reference.source();
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    let tokenizer = Tokenizer::from_checkpoint(checkpoint.description()).unwrap();
    let mut session = model.session();
    let tokens = |one: &Greedy| one.prompt.len() + one.ids.len();
    for wanted in model.run(&model.reference.greedy, tokens) {
        session.release();
        pollster::block_on(session.prefill(&wanted.prompt)).unwrap();
        let mut sampler = Sampler::new(Sampling::greedy(), 0);
        let most = wanted.ids.len() + usize::from(wanted.ended);
        let draft = session.draft(most, &mut sampler, tokenizer.end_ids());
        let draft = pollster::block_on(draft).unwrap();
        let text = tokenizer.decode(&draft.tokens);
        assert_eq!(text, wanted.text, "{}", model.title());
        assert_eq!(draft.tokens, wanted.ids, "{text}");
        assert_eq!(draft.ended, wanted.ended, "{text}");
    }
}
