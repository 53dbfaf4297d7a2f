//! Conversations in turns: each resumes where it was, with the same numbers as alone, and only new
//! tokens run. And a system prompt that is read once for all visits.

use crate::speaker::Speaker;
use conclave_ensemble::{Candidate, Settings};
use conclave_member::{Begun, Member, MemberError, Message};
use conclave_model::{Cpu, LoadOptions, ModelError, Sampling};
use conclave_weights::Memory;

/// A bundled member, on the CPU.
pub(crate) fn bundled(name: &str) -> Member {
    let file = format!(
        "{}/../../web/members/{name}.gguf",
        env!("CARGO_MANIFEST_DIR")
    );
    let source = Memory::file(format!("{name}.gguf"), std::fs::read(file).unwrap());
    let options = LoadOptions::with_context(512);
    let mut silent = |_| ();
    let load = Member::load(name, &source, &Cpu::ALONE, options, &mut silent);
    pollster::block_on(load).unwrap()
}

/// A turn's results: the tokens, the number run, the next logits and the candidates' scores.
struct Turn {
    prefix: usize,
    run: usize,
    logits: Vec<f32>,
    scores: Vec<f32>,
}

fn assert_close(found: &[f32], wanted: &[f32]) {
    let most = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let far = found.iter().zip(wanted).map(|(a, b)| (a - b).abs());
    let far = far.fold(0.0, f32::max);
    assert!(far < 2e-4 * most, "{far} of {most}");
}

/// A conversation that begins with a text of its own, and its next question.
struct Talk {
    messages: Vec<Message>,
}

impl Talk {
    fn new(about: &str) -> Self {
        let question = format!("{about} ").repeat(30);
        Self {
            messages: vec![Message::new("user", question)],
        }
    }

    /// Begins, and keeps one of two different candidates as the answer.
    fn turn(&mut self, member: &mut Member) -> Turn {
        let begun = pollster::block_on(member.begin(&self.messages, sampling(), 3)).unwrap();
        let logits = pollster::block_on(member.next_logits()).unwrap();
        let draft = pollster::block_on(member.draft(8)).unwrap();
        let candidates = [draft.text.as_str(), "The fox went home."].map(|text| Candidate {
            text: text.to_owned(),
            ended: false,
        });
        let settings = Settings::default();
        let scores = member.verify(&candidates, &settings);
        let scores = pollster::block_on(scores).unwrap();
        let scores = scores
            .iter()
            .map(|one| one.score.mean_logit.unwrap() as f32);
        let scores = scores.collect();
        pollster::block_on(member.keep(1)).unwrap();
        let Begun { prefix, run, .. } = begun;
        Turn {
            prefix,
            run,
            logits,
            scores,
        }
    }

    fn goes_on(&mut self, question: &str) {
        let answer = Message::new("assistant", "The fox went home.");
        self.messages
            .extend([answer, Message::new("user", question)]);
    }
}

fn sampling() -> Sampling {
    Sampling {
        seed: 9,
        ..Sampling::default()
    }
}

#[test]
fn conversations_in_turns_run_only_what_is_new() {
    for name in ["ada", "quill"] {
        let mut one = bundled(name);
        let mut alone = [(); 3].map(|()| bundled(name));
        let mut talks = ["A fox", "Two geese", "Three hens"].map(Talk::new);
        for round in 0..3 {
            for (talk, alone) in talks.iter_mut().zip(&mut alone) {
                let wanted = talk.turn(alone);
                let found = talk.turn(&mut one);
                assert_eq!(found.prefix, wanted.prefix, "{name}, round {round}");
                // Two may begin alike, and continue from there.
                assert!(found.run <= wanted.run, "{name}, round {round}");
                assert!(round == 0 || found.run < 40, "{name}, round {round}");
                // Prompts run in other steps round differently in their last bits.
                assert_close(&found.logits, &wanted.logits);
                assert_close(&found.scores, &wanted.scores);
                talk.goes_on("What did it do then?");
            }
        }
    }
}

/// Another question in place of the last one resumes from their common beginning, and both are
/// kept.
#[test]
fn a_conversation_that_parts_from_another_leaves_that_where_it_was() {
    let mut member = bundled("ada");
    let mut first = Talk::new("A fox");
    first.turn(&mut member);
    let mut second = Talk {
        messages: first.messages.clone(),
    };
    first.goes_on(&"What did it do then? ".repeat(20));
    let whole = first.turn(&mut member);
    second.goes_on(&"Where did it go next? ".repeat(20));
    let begun = second.turn(&mut member);
    assert!(begun.run < begun.prefix - 64, "{} ran", begun.run);
    first.goes_on("And?");
    let begun = first.turn(&mut member);
    assert!(begun.prefix > whole.prefix, "{}", begun.prefix);
    assert!(begun.run < 40, "{} ran", begun.run);
}

#[test]
fn there_are_as_many_as_there_is_room_for() {
    let talks = || ["A fox", "Two geese", "Three hens"].map(Talk::new);
    // The size of one, by the largest room that keeps none.
    let returns = |member: &mut Member, talks: &mut [Talk]| {
        talks.iter_mut().for_each(|talk| drop(talk.turn(member)));
        let begun = talks[0].turn(member);
        begun.run < begun.prefix / 2
    };
    for (room, wanted) in [(0, false), (10_000, false), (64 << 20, true)] {
        let mut member = bundled("ada");
        member.set_room_for_kept(room);
        assert_eq!(returns(&mut member, &mut talks()), wanted, "{room} bytes");
    }
    // A kept prefix is evicted when there is no more room.
    let mut member = bundled("ada");
    let mut talks = talks();
    talks
        .iter_mut()
        .for_each(|talk| drop(talk.turn(&mut member)));
    member.set_room_for_kept(0);
    let begun = talks[0].turn(&mut member);
    assert!(begun.run > begun.prefix / 2, "{} ran", begun.run);
    // Beyond a few, the least recently used is evicted.
    let mut member = bundled("ada");
    let about =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(|name| format!("{name} fox"));
    let mut talks = about.map(|about| Talk::new(&about));
    assert!(!returns(&mut member, &mut talks));
    let begun = talks[9].turn(&mut member);
    assert!(begun.run < 40, "{} ran", begun.run);
}

/// A repeated answer, and a prefix too short to matter, take no room.
#[test]
fn the_same_conversation_is_kept_once() {
    let mut member = bundled("ada");
    let mut first = Talk::new("A fox");
    let begun = first.turn(&mut member);
    for _ in 0..10 {
        let again = first.turn(&mut member);
        assert_eq!((again.prefix, again.run <= 1), (begun.prefix, true));
        let short = [Message::new("user", "Hello")];
        pollster::block_on(member.begin(&short, sampling(), 3)).unwrap();
        let again = first.turn(&mut member);
        assert!(again.run <= 1, "{} ran", again.run);
    }
}

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// The system prompt belongs to the first question, as in Gemma.
const WITHIN: &str = "{% for m in messages %}{% if m.role != 'system' %}<|im_start|>{{ m.role }}\n\
    {% if loop.index == 2 and messages[0].role == 'system' %}{{ messages[0].content }}\n\n\
    {% endif %}{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const WORDS: &[&str] = &["<|end|>", "<|im_start|>", "<|im_end|>", " Yes"];

fn speaker(template: &str) -> Member {
    let speaker = Speaker {
        words: WORDS,
        says: &[&["\n", " Yes", "<|im_end|>"]],
        template: Some(template),
        context: 4096,
        broken: None,
        beyond: 0,
        letters_beyond: 0,
    };
    speaker.load(2048).unwrap()
}

fn with_system(system: &str, question: &str) -> [Message; 2] {
    [
        Message::new("system", system),
        Message::new("user", question),
    ]
}

fn begin(member: &mut Member, messages: &[Message]) -> Begun {
    pollster::block_on(member.begin(messages, Sampling::greedy(), 0)).unwrap()
}

#[test]
fn a_system_prompt_is_read_once_for_all_visits() {
    let system = "Answer in one short sentence, and be kind. ".repeat(8);
    for make in [|| speaker(CHATML), || speaker(WITHIN), || bundled("ada")] {
        let given = ["Is it so?", "0 is a number?"].map(|question| {
            let mut member = make();
            let asked = with_system(&system, question);
            let key = member.system_key(&asked).unwrap().expect("it is long");
            begin(&mut member, &asked);
            pollster::block_on(member.draft(2)).unwrap();
            let given = pollster::block_on(member.give_system()).unwrap();
            (key, given.expect("it was read"))
        });
        // Both depend on the system prompt alone: neither reveals the question.
        assert_eq!(given[0], given[1]);
        let (key, bytes) = &given[0];

        let mut member = make();
        let asked = with_system(&system, "Zebras, are they?");
        assert_eq!(member.system_key(&asked).unwrap().as_ref(), Some(key));
        member.take_prefix(bytes).unwrap();
        let begun = begin(&mut member, &asked);
        assert!(begun.run < 64 && begun.prefix > 128, "{begun:?}");
        let mut fresh = make();
        begin(&mut fresh, &asked);
        let [found, wanted] = [&mut member, &mut fresh]
            .map(|member| pollster::block_on(member.next_logits()).unwrap());
        assert_close(&found, &wanted);

        let other = with_system(&format!("{system}!"), "Is it so?");
        assert_ne!(member.system_key(&other).unwrap().as_ref(), Some(key));
        // The conversation does not begin with that one.
        assert!(pollster::block_on(member.give_system()).unwrap().is_none());
    }
}

/// A conversation without a system prompt has the template's, as in SmolLM.
#[test]
fn a_template_s_own_beginning_is_read_once_for_all_visits() {
    let own = "Answer in one short sentence, and be kind. ".repeat(8);
    let template = format!(
        "{{% if messages[0].role != 'system' %}}<|im_start|>system\n{own}<|im_end|>\n\
         {{% endif %}}{CHATML}"
    );
    let asked = |question: &str| [Message::new("user", question)];
    let mut first = speaker(&template);
    let key = first.system_key(&asked("Is it so?")).unwrap();
    begin(&mut first, &asked("Is it so?"));
    let bytes = pollster::block_on(first.give_system()).unwrap().unwrap();

    let mut next = speaker(&template);
    assert_eq!(next.system_key(&asked("Zebras?")).unwrap(), key);
    assert!(key.is_some());
    next.take_prefix(&bytes).unwrap();
    let begun = begin(&mut next, &asked("Zebras?"));
    assert!(begun.run < 64 && begun.prefix > 128, "{begun:?}");
    // Written out it is the same text, with the same tokens.
    assert_eq!(next.system_key(&with_system(&own, "Zebras?")).unwrap(), key);
    assert_ne!(
        next.system_key(&with_system(&own[1..], "Zebras?")).unwrap(),
        key
    );
}

#[test]
fn only_a_long_system_prompt_at_the_beginning_is_worth_it() {
    let mut member = speaker(CHATML);
    let long = "Answer in one short sentence, and be kind. ".repeat(4);
    let user = Message::new("user", "Is it so?");
    for messages in [
        vec![],
        vec![user.clone()],
        vec![Message::new("user", &*long)],
        vec![Message::new("system", "Hi."), user.clone()],
        vec![user.clone(), Message::new("system", &*long)],
    ] {
        assert_eq!(member.system_key(&messages).unwrap(), None, "{messages:?}");
    }
    // No room, no key.
    let asked = [Message::new("system", &*long), user];
    assert!(member.system_key(&asked).unwrap().is_some());
    member.set_room_for_kept(0);
    assert_eq!(member.system_key(&asked).unwrap(), None);
}

#[test]
fn another_model_s_prefix_and_damaged_bytes_are_refused() {
    let system = "Answer in one short sentence, and be kind. ".repeat(4);
    let asked = with_system(&system, "Is it so?");
    let mut ada = bundled("ada");
    ada.system_key(&asked).unwrap();
    begin(&mut ada, &asked);
    let bytes = pollster::block_on(ada.give_system()).unwrap().unwrap();
    let refused = |member: &mut Member, bytes: &[u8]| {
        let taken = member.take_prefix(bytes);
        let saved = matches!(taken, Err(MemberError::Model(ModelError::Saved(_))));
        assert!(saved, "{taken:?}");
        let begun = begin(member, &asked);
        assert_eq!(begun.run, begun.prefix);
    };
    // The same shape, other weights.
    refused(&mut bundled("juno"), &bytes);
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 4;
    refused(&mut bundled("ada"), &damaged);
    refused(&mut bundled("ada"), &bytes[..bytes.len() - 1]);
    refused(&mut bundled("ada"), &[]);
}
