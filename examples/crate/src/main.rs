//! Models answer a question as one: `cargo run -- QUESTION MODEL.gguf …`

use std::error::Error;

use conclave_ensemble::Settings;
use conclave_member::{Member, Message};
use conclave_model::{Cpu, LoadOptions, Sampling};
use conclave_rounds::{Ask, Limits, Question, Round, Watch, answer};
use conclave_weights::Disk;

/// Prints each segment as soon as it is accepted.
struct Shown;

impl Watch for Shown {
    fn round(&mut self, round: &Round, text: &str) {
        let member = round.drafters[round.winner];
        eprintln!("member {member}: {text:?}");
    }
}

async fn as_one(question: &str, models: &[String]) -> Result<String, Box<dyn Error>> {
    let mut members = Vec::new();
    for path in models {
        let source = Disk::open(path)?;
        let options = LoadOptions::with_context(2048);
        members.push(Member::load(path, &source, &Cpu::ALONE, options, &mut |_| ()).await?);
    }
    let conversation = [Message::new("user", question)];
    let ask = Ask {
        question: Question::Conversation(&conversation),
        settings: &Settings::default(),
        sampling: Sampling::greedy(),
        limits: Limits::default(),
        form: None,
    };
    Ok(answer(&mut members, &ask, &mut Shown).await?.text)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (question, models) = arguments.split_first().ok_or("QUESTION MODEL.gguf …")?;
    println!("{}", pollster::block_on(as_one(question, models))?);
    Ok(())
}
