//! Logits after 20 prompts of 5 to 1,500 tokens, after the longer ones at several lengths.

use crate::fixture::{Published, Reference};
use crate::worst::Worst;

pub fn hold(model: &Published) {
    let reference = &model.reference;
    let kept = Reference::logits_of(model.name);
    let sampled =
        |number: usize| (number % reference.stride..reference.vocabulary).step_by(reference.stride);
    let mut kept = kept.as_slice();
    let mut number = 0;
    let mut worst = Worst::default();
    assert_eq!(reference.prompts.len(), 20);
    let mut session = model.session();
    for prompt in &reference.prompts {
        for row in &prompt.rows {
            assert_eq!(row.top.len(), reference.top);
            let ids = row.top.iter().copied().chain(sampled(number));
            let (wanted, rest) = kept.split_at(ids.clone().count());
            kept = rest;
            number += 1;
            pollster::block_on(session.prefill(&prompt.ids[..row.length])).unwrap();
            let found = pollster::block_on(session.next_logits()).unwrap();
            assert_eq!(found.len(), reference.vocabulary);
            for (id, &wanted) in ids.zip(wanted) {
                let error = f64::from((found[id] - wanted).abs()) / row.largest;
                worst.see(error, || format!("{} at {}", prompt.name, row.length));
            }
        }
        session.release();
    }
    assert!(kept.is_empty(), "rows that no prompt has");
    worst.hold(model, "logits");
}
