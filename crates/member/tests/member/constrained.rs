//! A member under a constraint drafts only allowed tokens and ends where the constraint says,
//! whatever its model prefers; the constraint receives the text that all have accepted.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use conclave_ensemble::{Candidate, Settings};
use conclave_member::{Constraint, Member, MemberError, Message};
use conclave_model::{Cpu, LoadOptions, Sampling};
use conclave_weights::Memory;

/// Allows one text, whatever the tokens.
struct Recite {
    text: &'static str,
    at: usize,
    tokens: Vec<Vec<u8>>,
    /// The accepted texts.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Recite {
    fn boxed(member: &Member, text: &'static str) -> (Box<Self>, Arc<Mutex<Vec<String>>>) {
        let written = member.vocabulary();
        let (mut rest, mut tokens) = (written.as_slice(), Vec::new());
        while let [low, high, tail @ ..] = rest {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            tokens.push(tail[..length].to_vec());
            rest = &tail[length..];
        }
        assert_eq!(tokens.len(), member.about().config.vocabulary);
        let heard = Arc::default();
        let recite = Self {
            text,
            at: 0,
            tokens,
            heard: Arc::clone(&heard),
        };
        (Box::new(recite), heard)
    }
}

impl Constraint for Recite {
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String> {
        let drawn: Vec<u8> = drawn
            .iter()
            .flat_map(|&id| self.tokens[id as usize].clone())
            .collect();
        let rest = self.text.as_bytes()[self.at..].strip_prefix(drawn.as_slice());
        let rest = rest.ok_or("what was drawn was not allowed")?;
        let mut words = vec![0; self.tokens.len() / 32 + 1];
        let mut allow = |bit: usize| words[bit / 32] |= 1 << (bit % 32);
        if rest.is_empty() {
            allow(self.tokens.len());
        }
        for (id, token) in self.tokens.iter().enumerate() {
            if !token.is_empty() && rest.starts_with(token) {
                allow(id);
            }
        }
        Ok(words)
    }

    fn accept(&mut self, text: &str) -> Result<(), String> {
        self.heard.lock().unwrap().push(text.to_owned());
        self.at += text.len();
        match self.text.starts_with(&self.heard.lock().unwrap().concat()) {
            true => Ok(()),
            false => Err("that is another text".to_owned()),
        }
    }
}

fn load(name: &str) -> Member {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = std::fs::read(root.join(format!("web/members/{name}.gguf"))).unwrap();
    let source = Memory::file(format!("{name}.gguf"), file);
    let (options, mut silent) = (LoadOptions::with_context(256), |_| ());
    let load = Member::load(name, &source, &Cpu::ALONE, options, &mut silent);
    pollster::block_on(load).unwrap()
}

fn begin(member: &mut Member) {
    let messages = [Message::new("user", "What is 3 + 4?")];
    pollster::block_on(member.begin(&messages, Sampling::default(), 0)).unwrap();
}

/// Verifies one candidate and keeps it.
fn take(member: &mut Member, text: &str) -> Result<(), MemberError> {
    let candidate = Candidate {
        text: text.to_owned(),
        ended: false,
    };
    pollster::block_on(async {
        member.verify(&[candidate], &Settings::default()).await?;
        member.keep(0).await
    })
}

const POEM: &str = "{\"Grüße\": [日本, \"\\n\"]}\n\nQuestion: none.  ";

#[test]
fn it_writes_what_is_allowed_and_ends_where_that_ends() {
    for name in ["ada", "quill", "juno"] {
        let mut member = load(name);
        begin(&mut member);
        let (constraint, heard) = Recite::boxed(&member, POEM);
        member.constrain(Some(constraint));
        let mut answer = String::new();
        for limit in 1.. {
            let draft = pollster::block_on(member.draft(limit)).unwrap();
            assert!(!draft.text.is_empty() || draft.ended, "{name}: {answer}");
            answer += &draft.text;
            take(&mut member, &draft.text).unwrap();
            if draft.ended {
                break;
            }
        }
        assert_eq!(answer, POEM, "{name}");
        assert_eq!(heard.lock().unwrap().concat(), POEM, "{name}");
        // Another member's text continues in any tokens.
        begin(&mut member);
        let (constraint, _) = Recite::boxed(&member, POEM);
        member.constrain(Some(constraint));
        take(&mut member, "{\"Gr").unwrap();
        let draft = pollster::block_on(member.draft(3)).unwrap();
        assert!(POEM["{\"Gr".len()..].starts_with(&draft.text), "{draft:?}");
        let refused = take(&mut member, "something else").unwrap_err();
        assert!(matches!(refused, MemberError::Constraint(_)), "{refused}");
    }
}

#[test]
fn a_draft_that_comes_to_the_end_at_its_limit_ends() {
    let mut member = load("ada");
    begin(&mut member);
    let (constraint, _) = Recite::boxed(&member, "7");
    member.constrain(Some(constraint));
    let draft = pollster::block_on(member.draft(1)).unwrap();
    assert_eq!((draft.text.as_str(), draft.ended), ("7", true));
}

#[test]
fn it_is_free_again_without_one() {
    let mut member = load("ada");
    begin(&mut member);
    let free = pollster::block_on(member.draft(8)).unwrap();
    let (constraint, _) = Recite::boxed(&member, "nothing of the kind");
    begin(&mut member);
    member.constrain(Some(constraint));
    let held = pollster::block_on(member.draft(8)).unwrap();
    assert!("nothing of the kind".starts_with(&held.text), "{held:?}");
    begin(&mut member);
    member.constrain(None);
    assert_eq!(pollster::block_on(member.draft(8)).unwrap(), free);
}
