//! A member's thought before its answer stays its own: reported, but neither crossing nor scored;
//! and a member that is not to think answers at once.

use crate::speaker::Speaker;
use conclave_ensemble::{Candidate, Settings};
use conclave_member::{Member, Message, Thinking, Thought};
use conclave_model::Sampling;

/// A template with a switch for thinking, as Qwen 3's.
const THINKER: &str = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>\
    {% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}";

const WORDS: &[&str] = &[
    "<|end|>",
    "<|user|>",
    "<|answer|>",
    "<think>",
    "</think>",
    "\n\n",
    "Hmm",
    ",",
    " let",
    " me",
    " see",
    "Yes",
    " it",
    " is",
    ".",
    "[THINK]",
];

/// Thinks, then says "Yes it is.".
const THOUGHTFUL: &[&[&str]] = &[&[
    "<|answer|>",
    "<think>",
    "Hmm",
    ",",
    " let",
    " me",
    " see",
    "</think>",
    "\n\n",
    "Yes",
    " it",
    " is",
    ".",
    "<|end|>",
]];

fn speaker<'a>(says: &'a [&'a [&'a str]], template: &'a str) -> Speaker<'a> {
    Speaker {
        words: WORDS,
        says,
        template: Some(template),
        context: 4096,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    }
}

fn begin(member: &mut Member, thinking: Thinking, messages: &[Message]) {
    member.set_thinking(thinking);
    pollster::block_on(member.begin(messages, Sampling::greedy(), 0)).unwrap();
}

/// The thought, and its pieces as reported.
fn think(member: &mut Member) -> (Thought, Vec<String>) {
    let mut pieces = Vec::new();
    let thought = member.think_while(async |news: &str| {
        pieces.push(news.to_owned());
        true
    });
    (pollster::block_on(thought).unwrap(), pieces)
}

/// The answer in separate rounds: segments of `limit` tokens.
fn answer(member: &mut Member, limit: usize) -> String {
    let mut text = String::new();
    for _ in 0..20 {
        let draft = pollster::block_on(member.draft(limit)).unwrap();
        text.push_str(&draft.text);
        let candidate = Candidate {
            text: draft.text,
            ended: draft.ended,
        };
        let settings = Settings::default();
        let scores = member.verify(std::slice::from_ref(&candidate), &settings);
        let scores = pollster::block_on(scores).unwrap();
        // It would have said the same by itself.
        assert!(
            scores[0].score.mean_logprob.unwrap() > -0.1,
            "{candidate:?}: {scores:?}"
        );
        pollster::block_on(member.keep(0)).unwrap();
        if candidate.ended {
            return text;
        }
    }
    panic!("no end: {text}")
}

#[test]
fn thoughts_are_told_and_rounds_begin_behind_them() {
    let question = [Message::new("user", "Is it so?")];
    for thinking in [Thinking::On, Thinking::Auto] {
        let mut member = speaker(THOUGHTFUL, THINKER).load(256).unwrap();
        begin(&mut member, thinking, &question);
        let (thought, pieces) = think(&mut member);
        assert_eq!(thought.text, "Hmm, let me see");
        assert_eq!(pieces.concat(), thought.text);
        assert_eq!((thought.tokens, thought.stopped), (7, false));
        assert_eq!(answer(&mut member, 3), "Yes it is.");
        // The next question is asked as if there had been no thought.
        let said = [
            question[0].clone(),
            Message::new("assistant", "Yes it is."),
            Message::new("user", "Is it?"),
        ];
        begin(&mut member, thinking, &said);
        let mut fresh = speaker(THOUGHTFUL, THINKER).load(256).unwrap();
        begin(&mut fresh, thinking, &said);
        assert_eq!(member.counters().prefix, fresh.counters().prefix);
        assert_eq!(think(&mut member).0, thought);
        assert_eq!(answer(&mut member, 10), "Yes it is.");
    }
}

#[test]
fn off_is_the_default_and_members_answer_at_once() {
    let question = [Message::new("user", "Is it so?")];
    // A template with the switch, one without, and one that opens a thought itself.
    let deaf = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>";
    let opening = format!("{deaf}<think>");
    for template in [THINKER, deaf, &opening] {
        let mut member = speaker(THOUGHTFUL, template).load(256).unwrap();
        pollster::block_on(member.begin(&question, Sampling::greedy(), 0)).unwrap();
        assert_eq!(
            think(&mut member),
            (Thought::default(), vec![]),
            "{template}"
        );
        let first = pollster::block_on(member.draft(4)).unwrap();
        assert_eq!(first.text, "Yes it is.", "{template}");
        assert_eq!(answer(&mut member, 2), "Yes it is.", "{template}");
    }
}

#[test]
fn thoughts_have_an_end() {
    let question = [Message::new("user", "Is it so?")];
    // It loops; half of the remaining context is its limit.
    let circles: &[&[&str]] = &[
        &["<|answer|>", "<think>", "Hmm", ",", " let", " me", "Hmm"],
        &["</think>", "\n\n", "Yes", " it", " is", ".", "<|end|>"],
    ];
    let mut member = speaker(circles, THINKER).load(256).unwrap();
    begin(&mut member, Thinking::On, &question);
    let room = 256 - member.counters().prefix;
    let (thought, pieces) = think(&mut member);
    assert_eq!(thought.tokens, room / 2);
    assert!(pieces.len() > 2 && thought.text.starts_with("Hmm, let meHmm, let me"));
    assert_eq!(answer(&mut member, 3), "Yes it is.");
    // And 1,024 tokens, however much context is left.
    let mut member = speaker(circles, THINKER).load(4096).unwrap();
    begin(&mut member, Thinking::On, &question);
    assert_eq!(think(&mut member).0.tokens, 1024);
    // One that ends its turn within the thought, and one whose template has opened it.
    let short: &[&[&str]] = &[
        &["<|answer|>", "<think>", "Hmm", "<|end|>"],
        &["</think>", "\n\n", "Yes", "."],
        &[".", "<|end|>"],
    ];
    let opened = format!("{THINKER}<think>");
    for template in [THINKER, &opened] {
        let mut member = speaker(short, template).load(256).unwrap();
        begin(&mut member, Thinking::Auto, &question);
        let (thought, _) = think(&mut member);
        assert_eq!(thought.text, "Hmm");
        assert_eq!(answer(&mut member, 3), "Yes.");
    }
}

#[test]
fn a_stop_is_heard_and_who_does_not_think_draws_as_ever() {
    let question = [Message::new("user", "Is it so?")];
    let circles: &[&[&str]] = &[&["<|answer|>", "<think>", "Hmm", ",", " let", " me", "Hmm"]];
    let mut member = speaker(circles, THINKER).load(2048).unwrap();
    begin(&mut member, Thinking::On, &question);
    let mut left = 3;
    let thought = member.think_while(async |_: &str| {
        left -= 1;
        left > 0
    });
    let thought = pollster::block_on(thought).unwrap();
    assert!(thought.stopped);
    assert!((40..=100).contains(&thought.tokens), "{thought:?}");

    let at_once: &[&[&str]] = &[&["<|answer|>", "Yes", ".", "<|end|>"]];
    let mut member = speaker(at_once, THINKER).load(256).unwrap();
    begin(&mut member, Thinking::Auto, &question);
    assert_eq!(think(&mut member), (Thought::default(), vec![]));
    assert_eq!(answer(&mut member, 3), "Yes.");
}

/// A thought in a draft never crosses, whatever the model does.
#[test]
fn a_thought_in_a_draft_is_taken_out() {
    let question = [Message::new("user", "Is it so?")];
    // It thinks again after an empty thought.
    let stubborn: &[&[&str]] = &[
        &["<|answer|>", "<think>"],
        &["\n\n", "<think>", "Hmm", "</think>", "Yes", ".", "<|end|>"],
    ];
    let deaf = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>";
    let mut member = speaker(stubborn, deaf).load(256).unwrap();
    begin(&mut member, Thinking::Off, &question);
    let draft = pollster::block_on(member.draft(10)).unwrap();
    assert_eq!((draft.text.as_str(), draft.ended), ("Yes.", true));
    // Cut within the thought, there is no text.
    let draft = pollster::block_on(member.draft(2)).unwrap();
    assert_eq!((draft.text.as_str(), draft.ended), ("", true));
}

/// Gemma 4 thinks in a named channel, whose marks are control tokens even where a file lists them
/// as text.
#[test]
fn a_channel_is_a_thought() {
    let channel: &[&[&str]] = &[&[
        "<|answer|>",
        "<|channel>",
        "thought",
        "\n",
        "Hmm",
        ",",
        " let",
        "<channel|>",
        "Yes",
        " it",
        " is",
        ".",
        "<|end|>",
    ]];
    let others = WORDS
        .iter()
        .filter(|word| !word.to_lowercase().contains("think"));
    let words = others.chain(&["<|channel>", "thought", "<channel|>"]);
    let words: Vec<&str> = words.copied().collect();
    let template = "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>\
        {% if not enable_thinking %}{% endif %}";
    let channelled = || {
        let speaker = Speaker {
            words: &words,
            ..speaker(channel, template)
        };
        speaker.load(256).unwrap()
    };
    let question = [Message::new("user", "Is it <channel|> so?")];
    let mut member = channelled();
    begin(&mut member, Thinking::On, &question);
    let (thought, pieces) = think(&mut member);
    assert_eq!(thought.text, "Hmm, let");
    assert_eq!((pieces.concat(), thought.tokens), (thought.text, 7));
    assert_eq!(answer(&mut member, 3), "Yes it is.");

    let mut member = channelled();
    begin(&mut member, Thinking::Off, &question);
    let before = member.counters().prefix;
    assert_eq!(answer(&mut member, 3), "Yes it is.");
    // The channel is closed at once: four tokens, then the answer's and its end.
    assert!(member.counters().prefix >= before + 4 + 4, "{before}");
}
