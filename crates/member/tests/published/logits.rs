//! Logits after 20 prompts of 5 to 1,500 tokens, after the longer ones at several lengths.

use crate::fixture::Published;
use crate::worst::Worst;

pub fn hold(model: &Published) {
    let reference = &model.reference;
    assert_eq!(reference.prompts.len(), 20);
    let run = model.run(&reference.prompts, |prompt| prompt.ids.len());
    let mut worst = Worst::default();
    let mut session = model.session();
    for prompt in &run {
        session.release();
        for row in &prompt.rows {
            pollster::block_on(session.prefill(&prompt.ids[..row.length])).unwrap();
            let found = pollster::block_on(session.next_logits()).unwrap();
            assert_eq!(found.len(), reference.vocabulary);
            for &(id, wanted) in &row.kept {
                let error = f64::from((found[id] - wanted).abs()) / row.largest;
                worst.see(error, || format!("{} at {}", prompt.name, row.length));
            }
        }
    }
    worst.hold(model, &format!("logits of {} prompts", run.len()));
}
