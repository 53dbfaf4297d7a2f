//! Prints conversations as JSON lines for training and examining members.
//!
//! ```text
//! conversations train --seed 1 --first 0 --count 1000 --mix add=30,sort=10
//! conversations exam --seed 1 --count 80
//! ```
//!
//! A training line is `{"skills": [..], "messages": [{"role", "content"}, ..]}`;
//! an exam line is `{"skill", "text", "answer", "final"}`.

use conclave_eval::skills::{Mix, Skill, conversation, final_answer, question};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().ok_or("say `train` or `exam` first")?;
    let (mut seed, mut first, mut count, mut mix) = (1_u64, 0_u64, 10_u64, Mix::even());
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--seed" => seed = value.parse()?,
            "--first" => first = value.parse()?,
            "--count" => count = value.parse()?,
            "--mix" => mix = parse_mix(&value)?,
            _ => {
                return Err(format!(
                    "unknown option {name}: use --seed, --first, --count or --mix"
                )
                .into());
            }
        }
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for index in first..first + count {
        let line = match kind.as_str() {
            "train" => {
                let drawn = conversation(seed, index, &mix);
                let skills: Vec<&str> = drawn
                    .questions
                    .iter()
                    .map(|asked| asked.skill.name())
                    .collect();
                let messages: Vec<_> = drawn
                    .messages
                    .iter()
                    .map(|message| {
                        serde_json::json!({
                            "role": message.role.name(), "content": message.content,
                        })
                    })
                    .collect();
                serde_json::json!({"skills": skills, "messages": messages})
            }
            "exam" => {
                let asked = question(seed, index);
                serde_json::json!({
                    "skill": asked.skill.name(),
                    "text": asked.text,
                    "answer": asked.answer,
                    "final": final_answer(&asked.answer),
                })
            }
            other => return Err(format!("unknown kind {other}: say `train` or `exam`").into()),
        };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn parse_mix(text: &str) -> Result<Mix, String> {
    let mut shares = Vec::new();
    for part in text.split(',') {
        let (name, share) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` is not SKILL=SHARE"))?;
        let skill = Skill::from_name(name).ok_or_else(|| format!("no skill is called `{name}`"))?;
        shares.push((
            skill,
            share
                .parse()
                .map_err(|_| format!("`{share}` is not a whole number"))?,
        ));
    }
    Mix::new(shares).ok_or_else(|| "a mix needs one share above zero".to_string())
}
