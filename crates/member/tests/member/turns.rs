//! Beginning and end of an answer in each member's own template.

use crate::speaker::Speaker;
use conclave_ensemble::{Candidate, Rule, Settings};
use conclave_member::{Member, Message};
use conclave_model::Sampling;

/// ChatML, whose turns end with `<|im_end|>`.
const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Tokens of text; `<|endoftext|>` and `<|end|>` precede the token that ends a turn.
const WORDS: &[&str] = &[
    "<|endoftext|>",
    "<|end|>",
    "<|im_start|>",
    "<|im_end|>",
    " Yes",
    "Yes",
    " it",
    " is",
    "Question",
    "\n\n",
];

/// The same for a base model, which knows no conversations.
const PLAIN_WORDS: &[&str] = &[
    "<|endoftext|>",
    "<|end|>",
    " Yes",
    "Yes",
    " it",
    " is",
    "Question",
    "\n\n",
];

/// After `assistant\n`, and after `Answer:`.
const CHATS: &[&[&str]] = &[&["\n", "Yes", " it", " is", ".", "<|im_end|>", "\n"]];
const CLOSES: &[&[&str]] = &[&[":", " Yes", " it", " is", ".", "\n\n", "Question", ":"]];
const RUNS_ON: &[&[&str]] = &[&[":", " Yes", " it", " is", ".", "\n", "Question", ":"]];

fn member(says: &[&[&str]], template: Option<&str>) -> Member {
    let speaker = Speaker {
        words: template.map_or(PLAIN_WORDS, |_| WORDS),
        says,
        template,
        context: 4096,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    let mut member = speaker.load(2048).unwrap();
    let question = [Message::new("user", "Is it so?")];
    pollster::block_on(member.begin(&question, Sampling::greedy(), 0)).unwrap();
    member
}

fn candidate(text: &str, ended: bool) -> Candidate {
    Candidate {
        text: text.to_owned(),
        ended,
    }
}

/// The member's mean probability of the candidate's tokens.
fn likely(member: &mut Member, candidate: &Candidate, settings: &Settings) -> f64 {
    let scores = member.verify(std::slice::from_ref(candidate), settings);
    let scores = pollster::block_on(scores).unwrap();
    scores[0].score.mean_logprob.unwrap().exp()
}

#[test]
fn an_end_is_scored_on_the_token_that_ends_a_turn() {
    let mut member = member(CHATS, Some(CHATML));
    let settings = Settings::default();
    let whole = candidate("Yes it is.", true);
    assert!(likely(&mut member, &whole, &settings) > 0.9);
    // It would not end half-way.
    let half = candidate("Yes it", true);
    assert!(likely(&mut member, &half, &settings) < 0.5);
    // Without the end's score these would be equal.
    let unscored = Settings {
        score_end: false,
        ..Settings::default()
    };
    assert!(likely(&mut member, &half, &unscored) > 0.9);
    // Only an end is scored as one under every rule.
    pollster::block_on(member.verify(&[candidate("Yes it is.", false)], &settings)).unwrap();
    pollster::block_on(member.keep(0)).unwrap();
    let paper = Settings {
        scoring: settings.scoring,
        ..Settings::preset(Rule::Paper)
    };
    for settings in [&settings, &paper] {
        assert!(likely(&mut member, &candidate("", true), settings) > 0.9);
    }
    // Only its text is kept.
    let before = member.counters().prefix;
    pollster::block_on(member.verify(&[candidate(" it", true)], &settings)).unwrap();
    pollster::block_on(member.keep(0)).unwrap();
    assert_eq!(member.counters().prefix, before + 1);
}

#[test]
fn white_space_before_an_answer_is_each_member_s_own() {
    let mut base = member(CLOSES, None);
    let mut chats = member(CHATS, Some(CHATML));
    assert!(!base.has_template() && chats.has_template());
    let drafts = [&mut base, &mut chats].map(|member| {
        let draft = pollster::block_on(member.draft(16)).unwrap();
        candidate(&draft.text, draft.ended)
    });
    assert_eq!(drafts[0], candidate("Yes it is.", true));
    assert_eq!(drafts[0], drafts[1]);
    // Each finds its own first word likely in a common text.
    let settings = Settings::default();
    for member in [&mut base, &mut chats] {
        assert!(likely(member, &drafts[0], &settings) > 0.9);
    }
    // One that never drafted, too.
    let mut verifier = member(CLOSES, None);
    assert!(likely(&mut verifier, &drafts[1], &settings) > 0.9);
}

#[test]
fn a_base_model_ends_where_it_would_ask_itself_the_next_question() {
    for says in [CLOSES, RUNS_ON] {
        for limit in 1..12 {
            let mut member = member(says, None);
            let mut text = String::new();
            let mut ended = false;
            for _ in 0..12 {
                let draft = pollster::block_on(member.draft(limit)).unwrap();
                let drafted = candidate(&draft.text, draft.ended);
                let settings = Settings::default();
                let verified = member.verify(std::slice::from_ref(&drafted), &settings);
                pollster::block_on(verified).unwrap();
                pollster::block_on(member.keep(0)).unwrap();
                text.push_str(&draft.text);
                ended = draft.ended;
                if ended {
                    break;
                }
            }
            assert!(ended, "segments of {limit}: {text:?}");
            assert_eq!(text, "Yes it is.", "segments of {limit}");
        }
    }
}
