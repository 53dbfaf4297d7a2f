//! A member's first draft of two is the likelier one, also where they are drawn.

use conclave_ensemble::{Candidate, Settings};
use conclave_member::Message;
use conclave_model::Sampling;

use crate::conversations::bundled;

#[test]
fn the_first_candidate_is_the_likelier_of_the_two() {
    let mut member = bundled("ada");
    let question = [Message::new("user", "What is 20 + 31?")];
    let wild = Sampling {
        temperature: 2.0,
        top_p: 1.0,
        ..Sampling::default()
    };
    let (mut pairs, mut likelier) = (0, 0);
    for seed in 0..40 {
        pollster::block_on(async {
            member.begin(&question, wild, seed).await.unwrap();
            let first = member.draft_for_round(32, 1.0, false).await.unwrap();
            let Some(second) = first.second.as_deref().filter(|second| second.ended) else {
                return;
            };
            let candidates = [&first, second].map(|draft| Candidate {
                text: draft.text.clone(),
                ended: draft.ended,
            });
            let settings = Settings::default();
            let scores = member.verify(&candidates, &settings).await.unwrap();
            let surprises: Vec<f64> = scores.iter().map(|one| one.score.surprise()).collect();
            pairs += 1;
            likelier += usize::from(surprises[0] <= surprises[1]);
        });
    }
    // The tokens after the place where the two part may still be drawn worse.
    assert!(
        pairs > 9 && 5 * likelier > 4 * pairs,
        "{likelier} of {pairs}"
    );
}
