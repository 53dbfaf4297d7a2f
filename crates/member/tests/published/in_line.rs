//! Candidates of all kinds after prefixes of up to 640 tokens: their scores in one pass equal those
//! of separate passes.

use crate::fixture::Published;
use crate::worst::Worst;

pub fn hold(model: &Published) {
    let mut worst = Worst::default();
    let mut session = model.session();
    for wanted in model.run(&model.reference.in_line, |one| one.prefix.len()) {
        session.release();
        pollster::block_on(session.prefill(&wanted.prefix)).unwrap();
        let candidates = &wanted.candidates;
        let ids: Vec<Vec<u32>> = candidates.iter().map(|one| one.ids.clone()).collect();
        let all = pollster::block_on(session.verify(&ids, true)).unwrap();
        let raw = pollster::block_on(session.verify(&ids, false)).unwrap();
        assert!(candidates.len() >= 4 && all.len() == candidates.len() && raw.len() == all.len());
        for ((all, raw), wanted) in all.iter().zip(&raw).zip(candidates) {
            assert_eq!(raw.mean_logprob, None);
            for (what, found, wanted_mean) in [
                ("logit", all.mean_logit, wanted.mean_logit),
                ("logit alone", raw.mean_logit, wanted.mean_logit),
                ("logprob", all.mean_logprob.unwrap(), wanted.mean_logprob),
            ] {
                let error = (found - wanted_mean).abs() / wanted.largest;
                worst.see(error, || format!("the mean {what} of {:?}", wanted.text));
            }
        }
    }
    worst.hold(model, "scores in line");
}
