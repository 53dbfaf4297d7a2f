//! Log-probabilities of an answer's tokens.

use crate::speaker::Speaker;
use conclave_ensemble::{Candidate, Settings};
use conclave_member::{ChosenToken, Member, Message};
use conclave_model::Sampling;

/// A base model, whose answers follow `Answer:` and a space.
fn member(words: &[&str], says: &[&[&str]]) -> Member {
    let speaker = Speaker {
        words,
        says,
        template: None,
        context: 4096,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    speaker.load(2048).unwrap()
}

/// Lets the member answer `text`, a continuation of `begun`.
fn answer(member: &mut Member, begun: &str, text: &str) {
    let question = [Message::new("user", "Is it so?")];
    member.begin_with(begun);
    pollster::block_on(async {
        let begin = member.begin(&question, Sampling::greedy(), 0);
        begin.await.unwrap();
        let candidate = Candidate {
            text: text.to_owned(),
            ended: false,
        };
        let settings = Settings::default();
        let verify = member.verify(std::slice::from_ref(&candidate), &settings);
        verify.await.unwrap();
        member.keep(0).await.unwrap();
    });
}

fn chosen(member: &mut Member, most: usize) -> Vec<ChosenToken> {
    let chosen = pollster::block_on(member.chosen(most, || true));
    chosen.unwrap().unwrap()
}

fn texts(chosen: &[ChosenToken]) -> Vec<&str> {
    let texts = chosen.iter().map(|one| std::str::from_utf8(&one.bytes));
    texts.collect::<Result<_, _>>().unwrap()
}

const WORDS: &[&str] = &["<|end|>", " Yes", " No", "Maybe", " it", " is"];

/// All three beginnings are as likely.
const SAYS: &[&[&str]] = &[
    &[":", " Yes", " it", " is", "."],
    &[":", " No"],
    &[":", "Maybe"],
];

#[test]
fn white_space_before_an_answer_is_no_part_of_its_tokens() {
    let mut member = member(WORDS, SAYS);
    answer(&mut member, "", "Yes it is.");
    let tokens = chosen(&mut member, 3);
    assert_eq!(texts(&tokens), ["Yes", " it", " is", "."]);
    // Nor of the alternatives that begin with it.
    let likeliest = tokens[0].likeliest.iter();
    let mut likeliest: Vec<&str> = likeliest
        .map(|(bytes, logprob)| {
            assert!((logprob.exp() - 1.0 / 3.0).abs() < 0.01, "{logprob}");
            std::str::from_utf8(bytes).unwrap()
        })
        .collect();
    likeliest.sort_unstable();
    assert_eq!(likeliest, ["Maybe", "No", "Yes"]);
    assert_eq!(tokens[1].likeliest[0].0, b" it");
}

#[test]
fn a_token_of_nothing_but_that_white_space_is_left_out() {
    let words = &["<|end|>", "Yes", " it"];
    let mut member = member(words, &[&[":", " ", "Yes", " it", "."]]);
    answer(&mut member, "", "Yes it.");
    let tokens = chosen(&mut member, 1);
    assert_eq!(texts(&tokens), ["Yes", " it", "."]);
    // It was run: the word after it is likely.
    assert!(
        tokens.iter().all(|one| one.logprob.exp() > 0.9),
        "{tokens:?}"
    );
}

#[test]
fn a_continued_answer_keeps_its_first_space() {
    let mut member = member(WORDS, SAYS);
    answer(&mut member, "Yes", " it is.");
    assert_eq!(texts(&chosen(&mut member, 0)), [" it", " is", "."]);
}

#[test]
fn the_tokens_end_where_nobody_waits_for_them() {
    let mut member = member(WORDS, SAYS);
    answer(&mut member, "", "Yes it is.");
    let whole = chosen(&mut member, 2);
    let mut left = 2;
    let stopped = pollster::block_on(member.chosen(2, || {
        left -= 1;
        left >= 0
    }));
    assert!(stopped.unwrap().is_none());
    assert_eq!(left, -1, "it is asked before each token");
    // The next answer is not affected.
    answer(&mut member, "", "Yes it is.");
    assert_eq!(chosen(&mut member, 2), whole);
}
