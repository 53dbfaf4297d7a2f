//! A draft that must be novel leaves the circle in which the member would go on.

use crate::speaker::Speaker;
use conclave_ensemble::{Candidate, Settings};
use conclave_member::Message;
use conclave_model::Sampling;

const WORDS: &[&str] = &[
    "<|end|>",
    "<|user|>",
    "<|answer|>",
    " so",
    " it",
    " goes",
    " on",
    " and",
    " round",
    " out",
];

const CIRCLE: &str = " so it goes on and round";

#[test]
fn a_novel_draft_has_no_run_of_six_tokens_twice() {
    let round = Speaker {
        words: WORDS,
        says: &[&[
            "<|answer|>",
            " so",
            " it",
            " goes",
            " on",
            " and",
            " round",
            " so",
        ]],
        template: Some(
            "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>",
        ),
        context: 256,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    let mut member = round.load(256).unwrap();
    let question = [Message::new("user", " so")];
    // An answer begins without the space of its first word.
    let first = CIRCLE.trim_start().to_owned();
    let candidate = Candidate {
        text: first.clone(),
        ended: false,
    };
    pollster::block_on(async {
        let begun = member.begin(&question, Sampling::greedy(), 0);
        begun.await.unwrap();
        // Nothing is accepted that it could repeat.
        assert_eq!(
            member.draft_for_round(6, 0.0, true).await.unwrap().text,
            first
        );
        member
            .verify(&[candidate], &Settings::default())
            .await
            .unwrap();
        member.keep(0).await.unwrap();
        let again = member.draft(6).await.unwrap();
        assert_eq!(again.text, CIRCLE);
        let novel = member.draft_for_round(12, 0.0, true).await.unwrap();
        let text = format!("{CIRCLE}{}", novel.text);
        let words: Vec<&str> = text.split(' ').skip(1).collect();
        let mut runs: Vec<&[&str]> = words.windows(6).collect();
        let all = runs.len();
        runs.sort_unstable();
        runs.dedup();
        assert_eq!(runs.len(), all, "{text}");
        assert!(novel.ended || novel.tokens == 12, "{novel:?}");
        assert_eq!(member.draft(6).await.unwrap(), again, "free again");

        // A given beginning is a part of the answer.
        member.begin_with(&(first + CIRCLE));
        let begun = member.begin(&question, Sampling::greedy(), 0);
        begun.await.unwrap();
        let next = Candidate {
            text: " so".to_owned(),
            ended: false,
        };
        member.verify(&[next], &Settings::default()).await.unwrap();
        member.keep(0).await.unwrap();
        let novel = member.draft_for_round(12, 0.0, true).await.unwrap();
        let text = format!(" so{}", novel.text);
        assert!(!text.contains(CIRCLE), "{text}");
    });
}
