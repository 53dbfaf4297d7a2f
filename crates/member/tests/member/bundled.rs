//! The three members that ship with the page, against results of transformers and its tokenizers
//! for the same files (`tests/members/publish.py`).

use std::path::PathBuf;

use conclave_ensemble::{Rule, Settings};
use conclave_member::{Member, Message};
use conclave_model::{Cpu, LoadOptions, Sampling};
use conclave_text::{ChatTemplate, Tokenizer};
use conclave_weights::{Gguf, Memory};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    rendered: Rendered,
    tokens: Vec<Tokens>,
    replies: Vec<Reply>,
}

#[derive(Deserialize)]
struct Rendered {
    messages: Vec<Message>,
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Tokens {
    text: String,
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Reply {
    question: String,
    prompt: Vec<u32>,
    text: String,
}

const NAMES: [&str; 3] = ["ada", "quill", "juno"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn golden(name: &str) -> (Vec<u8>, Golden) {
    let file = std::fs::read(root().join(format!("web/members/{name}.gguf"))).unwrap();
    let golden = root().join(format!("tests/fixtures/members/{name}.json"));
    let golden = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    (file, golden)
}

/// The member of a file, on the CPU.
fn load(name: &str, file: &[u8]) -> Member {
    let source = Memory::file(format!("{name}.gguf"), file.to_vec());
    let options = LoadOptions::with_context(512);
    let backend = Cpu::ALONE;
    let mut silent = |_| ();
    let load = Member::load(name, &source, &backend, options, &mut silent);
    pollster::block_on(load).unwrap()
}

#[test]
fn their_text_becomes_the_ids_that_python_gives() {
    for name in NAMES {
        let (file, golden) = golden(name);
        let gguf = Gguf::parse_whole(&file).unwrap();
        let tokenizer = Tokenizer::from_gguf(gguf.metadata()).unwrap();
        for Tokens { text, ids } in &golden.tokens {
            assert_eq!(
                &tokenizer.encode_text(text).unwrap(),
                ids,
                "{name}: {text:?}"
            );
        }
        let template = ChatTemplate::from_gguf(gguf.metadata(), &tokenizer).unwrap();
        let prompt = template.render(&golden.rendered.messages, true).unwrap();
        assert_eq!(prompt.text(), golden.rendered.text, "{name}");
        assert_eq!(
            tokenizer.encode_prompt(&prompt).unwrap(),
            golden.rendered.ids,
            "{name}"
        );
    }
}

#[test]
fn their_greedy_replies_are_those_of_transformers() {
    for name in NAMES {
        let (file, golden) = golden(name);
        let mut member = load(name, &file);
        for Reply {
            question,
            prompt,
            text,
        } in &golden.replies
        {
            let messages = [Message::new("user", question)];
            let begun = pollster::block_on(member.begin(&messages, Sampling::greedy(), 0)).unwrap();
            assert_eq!(begun.prefix, prompt.len(), "{name}: {question}");
            let draft = pollster::block_on(member.draft(256)).unwrap();
            assert_eq!(&draft.text, text, "{name}: {question}");
            assert!(draft.ended);
        }
    }
}

#[test]
fn whether_a_conversation_fits_is_known_before_it_is_read() {
    for name in NAMES {
        let (file, golden) = golden(name);
        let mut member = load(name, &file);
        for Reply {
            question, prompt, ..
        } in &golden.replies
        {
            let messages = [Message::new("user", question)];
            assert_eq!(member.measure(&messages).unwrap(), prompt.len());
            pollster::block_on(member.begin(&messages, Sampling::greedy(), 0)).unwrap();
            // Once read, its ids are those present.
            assert_eq!(member.measure(&messages).unwrap(), prompt.len());
        }
        let before = member.counters();
        let longest = (1..)
            .map(|words| [Message::new("user", "word ".repeat(words))])
            .take_while(|messages| member.measure(messages).is_ok())
            .last()
            .unwrap();
        let beyond = format!("{}word word", longest[0].content);
        let too_long = [Message::new("user", beyond)];
        let refused = member.measure(&too_long).unwrap_err().to_string();
        assert!(refused.contains("the context of 512 tokens"), "{refused}");
        assert_eq!(member.counters(), before, "{name} has run something");
        let begun = pollster::block_on(member.begin(&longest, Sampling::greedy(), 0)).unwrap();
        assert!(begun.prefix < 512);
        pollster::block_on(member.draft(1)).unwrap();
        let begun = pollster::block_on(member.begin(&too_long, Sampling::greedy(), 0));
        assert_eq!(begun.unwrap_err().to_string(), refused);
    }
}

/// An answer in three segments, then a follow-up: only new tokens run, and the conversation equals
/// a fresh member's.
#[test]
fn a_follow_up_continues_on_the_kept_rows() {
    use conclave_ensemble::Candidate;
    for name in NAMES {
        let (file, _) = golden(name);
        let mut member = load(name, &file);
        let mut messages = vec![Message::new("user", "What is 12 + 30?")];
        pollster::block_on(member.begin(&messages, Sampling::greedy(), 0)).unwrap();
        let segments = ["Add ones 2+0=2;", " tens 1+3=4.", " Answer: 42."];
        for (index, text) in segments.iter().enumerate() {
            let other = Candidate {
                text: " something else".to_owned(),
                ended: false,
            };
            let right = Candidate {
                text: (*text).to_owned(),
                ended: index == 2,
            };
            pollster::block_on(member.verify(&[other, right], &Settings::preset(Rule::Paper)))
                .unwrap();
            pollster::block_on(member.keep(1)).unwrap();
        }
        let before = member.counters();
        messages.push(Message::new("assistant", segments.concat()));
        messages.push(Message::new("user", "What is 5 + 6?"));
        let begun = pollster::block_on(member.begin(&messages, Sampling::greedy(), 0)).unwrap();
        assert_eq!(
            begun.prefix - begun.run,
            before.prefix,
            "{name} ran what it had"
        );
        let continued = pollster::block_on(member.draft(64)).unwrap();

        let mut fresh = load(name, &file);
        let begun = pollster::block_on(fresh.begin(&messages, Sampling::greedy(), 0)).unwrap();
        assert_eq!(begun.run, begun.prefix);
        assert_eq!(
            pollster::block_on(fresh.draft(64)).unwrap().text,
            continued.text,
            "{name}"
        );
    }
}

/// A question with much before it.
fn long(question: &str) -> Vec<Message> {
    let story = "The fox went over the hill and the goose went home. ".repeat(8);
    vec![Message::new("user", format!("{story}{question}"))]
}

/// A begin stopped after its first step, in a new conversation and in a follow-up, loses nothing:
/// the same begin runs the rest, and drafts like a member that was not stopped.
#[test]
fn a_begin_that_was_stopped_goes_on_where_it_was() {
    use conclave_ensemble::Candidate;
    for name in NAMES {
        let (file, _) = golden(name);
        let [mut stopped, mut undisturbed] = [load(name, &file), load(name, &file)];
        let mut messages = Vec::new();
        for turn in 0..2 {
            messages.extend(long("What is 12 + 30?"));
            let held = stopped.counters().prefix;
            let first = stopped.begin_while(&messages, Sampling::default(), 0, async |_, _| false);
            let first = pollster::block_on(first).unwrap();
            assert!(first.stopped, "{name}");
            assert_eq!(first.prefix, held + first.run, "{name}, turn {turn}");
            let rest = stopped.begin(&messages, Sampling::default(), 0);
            let rest = pollster::block_on(rest).unwrap();
            let whole = undisturbed.begin(&messages, Sampling::default(), 0);
            let whole = pollster::block_on(whole).unwrap();
            assert!(first.run > 0 && rest.run > 0, "{name}, turn {turn}");
            assert_eq!(first.run + rest.run, whole.run, "{name}, turn {turn}");
            assert_eq!(rest.prefix, whole.prefix, "{name}, turn {turn}");
            // Cut within words, so that its ids differ from those of its text in a prompt.
            let answer = ["Add on", "es 2+0=2; Answ", "er: 42."];
            for member in [&mut stopped, &mut undisturbed] {
                for text in answer {
                    let text = text.to_owned();
                    let ended = false;
                    let candidate = Candidate { text, ended };
                    pollster::block_on(member.verify(&[candidate], &Settings::preset(Rule::Paper)))
                        .unwrap();
                    pollster::block_on(member.keep(0)).unwrap();
                }
            }
            messages.push(Message::new("assistant", answer.concat()));
            let [found, wanted] = [&mut stopped, &mut undisturbed]
                .map(|member| pollster::block_on(member.draft(10)).unwrap());
            assert_eq!(found, wanted, "{name}, turn {turn}");
        }
    }
}

/// A whole answer drawn in steps equals one long draft, for greedy and for drawn tokens, and leaves
/// the next question unaffected.
#[test]
fn a_whole_answer_is_what_one_draft_would_be() {
    for name in NAMES {
        let (file, golden) = golden(name);
        let mut member = load(name, &file);
        for (Reply { question, .. }, limit) in golden.replies.iter().zip([256, 40, 33, 16, 1]) {
            let messages = [Message::new("user", question)];
            for sampling in [Sampling::greedy(), Sampling::default()] {
                let before = member.counters().draft_tokens;
                pollster::block_on(member.begin(&messages, sampling, 3)).unwrap();
                let written = pollster::block_on(member.write(limit)).unwrap();
                let run = member.counters().draft_tokens - before;
                assert!(run <= written.tokens, "{name} ran {run} for {written:?}");
                pollster::block_on(member.begin(&messages, sampling, 3)).unwrap();
                let drafted = pollster::block_on(member.draft(limit)).unwrap();
                assert_eq!(written, drafted, "{name}: {question}");
            }
        }
    }
}

/// A full context ends an answer without an error.
#[test]
fn a_whole_answer_ends_with_the_context() {
    let (file, _) = golden("ada");
    let mut member = load("ada", &file);
    let longest = (1..)
        .map(|words| {
            [Message::new(
                "user",
                "word ".repeat(words) + "Tell me a story.",
            )]
        })
        .take_while(|messages| member.measure(messages).is_ok_and(|tokens| tokens <= 490))
        .last()
        .unwrap();
    let begun = pollster::block_on(member.begin(&longest, Sampling::greedy(), 0)).unwrap();
    let written = pollster::block_on(member.write(100)).unwrap();
    assert!(!written.ended, "{written:?}");
    assert_eq!(begun.prefix + written.tokens, 512);
}

/// Surprise at a question, from the logits of all its tokens.
#[test]
fn surprise_is_the_mean_over_the_question() {
    use conclave_model::{Model, Session};
    use conclave_weights::Checkpoint;
    for name in NAMES {
        let (file, golden) = golden(name);
        let source = Memory::file("model.gguf", file.clone());
        let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
        let options = LoadOptions::with_context(512);
        let mut silent = |_| ();
        let model = Model::load(&checkpoint, &source, &Cpu::ALONE, options, &mut silent);
        let mut session = Session::new(pollster::block_on(model).unwrap());
        let gguf = Gguf::parse_whole(&file).unwrap();
        let tokenizer = Tokenizer::from_gguf(gguf.metadata()).unwrap();
        let template = ChatTemplate::from_gguf(gguf.metadata(), &tokenizer).unwrap();
        let mut member = load(name, &file);
        for Reply { question, .. } in &golden.replies {
            let messages = [Message::new("user", question)];
            let prompt = template.render(&messages, true).unwrap();
            let before = prompt.before(question).unwrap();
            let mut ids = tokenizer.encode_prompt(&before).unwrap();
            let begin = ids.len();
            ids.extend(tokenizer.encode(question).unwrap());
            let logits = pollster::block_on(session.all_logits(&ids)).unwrap();
            let surprise = |place: usize| {
                let row = logits[place - 1].iter().map(|&logit| f64::from(logit));
                let sum: f64 = row.clone().map(f64::exp).sum();
                sum.ln() - f64::from(logits[place - 1][ids[place] as usize])
            };
            let wanted: f64 = (begin..ids.len()).map(surprise).sum();
            let wanted = wanted / (ids.len() - begin) as f64;
            // With another prompt present or not.
            pollster::block_on(member.begin(&messages, Sampling::greedy(), 0)).unwrap();
            let found = pollster::block_on(member.surprise(&messages))
                .unwrap()
                .unwrap();
            assert!(
                (found - wanted).abs() < 2e-3 * wanted,
                "{found}, not {wanted}"
            );
        }
        let empty = [Message::new("user", " ")];
        assert_eq!(pollster::block_on(member.surprise(&empty)).unwrap(), None);
    }
}
