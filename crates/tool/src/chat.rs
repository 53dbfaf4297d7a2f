//! `conclave chat`: one question, or a conversation from the terminal.

use std::borrow::Cow;
use std::io::{BufRead, IsTerminal};
use std::path::Path;

use conclave_ensemble::Settings;
use conclave_member::Message;
use conclave_rounds::{
    Answer, AnyMember, Ask, Left, Limits, Question, Round, TakePart, Watch, answer, leave_out,
};
use conclave_serve::name_apart_from;
use serde_json::json;

use crate::args;
use crate::credits::{self, Credit};
use crate::device::Device;
use crate::failure::Failure;
use crate::form::Form;
use crate::members;
use crate::print;
use crate::progress::{Reading, say, tell_late, tell_left, tell_remote};

pub async fn run(chat: &args::Chat, device: &Device, json: bool) -> Result<(), Failure> {
    let settings = chat.method.settings(Settings::default());
    // Fails before gigabytes are read.
    args::check(&settings)?;
    let mut members = members::load_any(&chat.members, device)?;
    // A member may have the ensemble's name: it may be one, on a server.
    let names = name_apart_from(&[], &mut members);
    if let Some(name) = &chat.member {
        let alike = |one: &String| one.eq_ignore_ascii_case(name);
        let exact = names.iter().position(|one| one == name);
        let Some(place) = exact.or_else(|| names.iter().position(alike)) else {
            return Err(Failure::Usage(format!(
                "no member is called `{name}`; there are {}",
                names.join(", ")
            )));
        };
        members = vec![members.swap_remove(place)];
    }
    for member in &members {
        if let (AnyMember::Remote(member), false) = (member, json) {
            tell_remote(member);
        }
    }
    let form = match &chat.json_schema {
        Some(path) => Some(Form::read(path, members.len())?),
        None => None,
    };
    let question = match &chat.question {
        Some(question) => question.clone(),
        None if json => read_line(&mut std::io::stdin().lock())?.unwrap_or_default(),
        None => return converse(chat, &mut members, &settings, form.as_ref(), &device.name),
    };
    if question.trim().is_empty() {
        return Err(Failure::Usage(
            "the question is empty; ask as in `conclave chat \"What is 347 + 85?\"`".to_owned(),
        ));
    }
    let mut messages = opening(chat);
    messages.push(Message::new("user", &question));
    let answer = ask(
        chat,
        &mut members,
        &settings,
        form.as_ref(),
        &messages,
        json,
    )
    .await?;
    let run = record(chat, &members, &settings, &messages, &device.name, &answer);
    if json {
        print(&format!("{run}\n"))?;
    }
    save(chat, &run)
}

/// The conversation before its first question.
fn opening(chat: &args::Chat) -> Vec<Message> {
    let system = chat.system.iter();
    system.map(|text| Message::new("system", text)).collect()
}

/// Writes the run to the file of `--record`.
fn save(chat: &args::Chat, run: &serde_json::Value) -> Result<(), Failure> {
    match &chat.record {
        Some(path) => {
            std::fs::write(path, format!("{run}\n")).map_err(|error| Failure::file(path, error))
        }
        None => Ok(()),
    }
}

/// Asks the questions of standard input.
fn converse(
    chat: &args::Chat,
    members: &mut [AnyMember],
    settings: &Settings,
    form: Option<&Form>,
    device: &str,
) -> Result<(), Failure> {
    let prompts = std::io::stdin().is_terminal();
    if prompts {
        let names: Vec<_> = members.iter().map(TakePart::name).collect();
        eprintln!("{} on {device}. An empty line ends.", names.join(", "));
    }
    let turn = |messages: &mut Vec<Message>| {
        make_room(members, settings, messages);
        let said = pollster::block_on(ask(chat, members, settings, form, messages, false))?;
        let run = record(chat, members, settings, messages, device, &said);
        messages.push(Message::new("assistant", &said.text));
        save(chat, &run)
    };
    each_question(&mut std::io::stdin().lock(), prompts, opening(chat), turn)
}

/// Takes question after question of a conversation that begins with `messages`, until the input
/// ends. `turn` gets the conversation with the question, may leave out its oldest turns, and adds
/// the answer. With `prompts`, for a person, an empty line ends too, and a failure is shown and
/// costs no more than its question. Without, empty lines are skipped, and the first failure ends.
fn each_question(
    input: &mut impl BufRead,
    prompts: bool,
    mut messages: Vec<Message>,
    mut turn: impl FnMut(&mut Vec<Message>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    loop {
        if prompts {
            eprint!("> ");
        }
        let question = match read_line(input)? {
            None => return Ok(()),
            Some(question) if !question.is_empty() => question,
            Some(_) if prompts => return Ok(()),
            Some(_) => continue,
        };
        let before = messages.clone();
        messages.push(Message::new("user", &question));
        let Err(failure) = turn(&mut messages) else {
            continue;
        };
        // Nobody would see another answer.
        if !prompts || matches!(failure, Failure::Output(_)) {
            return Err(failure);
        }
        say(&format!("conclave: {failure}"));
        // An answer that only could not be recorded stays.
        if messages.last().is_some_and(|last| last.role == "user") {
            messages = before;
        }
    }
}

/// Leaves out the oldest turns, if the members have no room for all.
fn make_room(members: &[AnyMember], settings: &Settings, messages: &mut Vec<Message>) {
    let most = settings.max_rounds.saturating_mul(settings.segment_tokens);
    let old = pollster::block_on(leave_out(members, messages, most));
    if old.is_empty() {
        return;
    }
    let questions = messages[old.clone()].iter();
    let questions = questions.filter(|one| one.role == "user").count();
    eprintln!(
        "(there is no room for all that was said before: the oldest {}left out)",
        match questions {
            1 => "question is ".to_owned(),
            more => format!("{more} questions are "),
        }
    );
    messages.drain(old);
}

async fn ask(
    chat: &args::Chat,
    members: &mut [AnyMember],
    settings: &Settings,
    form: Option<&Form>,
    messages: &[Message],
    quiet: bool,
) -> Result<Answer, Failure> {
    let mut shown = Shown {
        names: members.iter().map(|m| m.name().to_owned()).collect(),
        reading: Reading::new(quiet),
        votes: chat.show_votes,
        quiet,
    };
    let asked = Ask {
        question: Question::Conversation(messages),
        settings,
        sampling: chat.drawing.sampling(),
        limits: Limits::default(),
        form: form.map(Form::for_all),
    };
    members.iter_mut().for_each(TakePart::reconnect);
    let answer = answer(members, &asked, &mut shown).await;
    shown.reading.end();
    let (answer, names) = (answer?, shown.names);
    if chat.show_votes && !quiet {
        for (name, thought) in names.iter().zip(&answer.thoughts) {
            if !thought.text.is_empty() {
                eprintln!("({name} thought: {})", thought.text);
            }
        }
    }
    if !quiet {
        if chat.show_votes {
            let text = for_reading(answer.text.trim(), std::io::stdout().is_terminal());
            print(&format!("{text}\n"))?;
        } else {
            print("\n")?;
        }
        match answer.stopped {
            "rounds" => eprintln!("(stopped after the last round; --max-rounds allows more)"),
            "length" => eprintln!("(stopped at the length limit; --max-characters allows more)"),
            "context" => {
                let more = members.iter().any(allows_more);
                let advice = if more { "; --context allows more" } else { "" };
                eprintln!("(stopped: the context is full{advice})");
            }
            "silence" => eprintln!("(stopped: no member had more to say)"),
            "repetition" => {
                eprintln!("(stopped: the answer only repeats itself; --max-repeats allows more)");
            }
            _ => {}
        }
        let rounds: Vec<Credit> = answer.rounds.iter().map(Credit::from).collect();
        if let Some(line) = credits::line(&names, &rounds) {
            eprintln!("({line})");
        }
    }
    Ok(answer)
}

/// Whether a model was made for more context than it was loaded with.
fn allows_more(member: &AnyMember) -> bool {
    match member {
        AnyMember::Local(member) => member.about().context < member.about().config.context,
        AnyMember::Remote(_) | AnyMember::Away(_) => false,
    }
}

/// Shows an answer as it grows.
struct Shown {
    names: Vec<String>,
    reading: Reading,
    /// Whether to show each round's votes instead of its text.
    votes: bool,
    quiet: bool,
}

impl Watch for Shown {
    fn reading(&mut self, member: &str, done: usize, total: usize) {
        self.reading.show(member, done, total);
    }

    fn round(&mut self, round: &Round, text: &str) {
        if self.quiet {
            return;
        }
        for late in &round.abstained {
            tell_late(&self.names[late.member], late);
        }
        // A closed pipe is reported by the last write.
        let _ = if self.votes {
            print(&votes(&self.names, round))
        } else {
            print(&for_reading(text, std::io::stdout().is_terminal()))
        };
    }

    fn left(&mut self, member: &str, left: &Left) {
        tell_left(member, left);
    }
}

/// Removes control characters from a text for a terminal: a member, or the operator of its server,
/// could send commands with them. Other readers get the text unchanged.
fn for_reading(text: &str, terminal: bool) -> Cow<'_, str> {
    let command = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    match terminal && text.contains(command) {
        true => text.replace(command, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// One round as a small table: candidates, shares, totals and weights.
fn votes(names: &[String], round: &Round) -> String {
    let mut out = String::new();
    for (position, candidate) in round.candidates.iter().enumerate() {
        let mark = if position == round.winner { '*' } else { ' ' };
        let name = &names[round.drafters[position]];
        let weight = round
            .place_of(position)
            .map_or(0.0, |place| round.weights[place]);
        let votes = match round.totals.get(position) {
            Some(total) => {
                let shares = round.normalised.iter().map(|row| match row.get(position) {
                    Some(share) => format!(" {share:.3}"),
                    // It abstains.
                    None => " -".to_owned(),
                });
                format!("total {total:.3}  votes{}", shares.collect::<String>())
            }
            None if round.by_one() => "is sure; no other was asked".to_owned(),
            None if round.verified => "leads; no member doubts it".to_owned(),
            // A fast end was accepted.
            None => "unverified".to_owned(),
        };
        let end = if candidate.ended { " (end)" } else { "" };
        out += &format!(
            "{mark} {name:<10} weight {weight:.3}  {votes}  {:?}{end}\n",
            candidate.text
        );
    }
    for &index in &round.exited {
        out += &format!("  {} leaves\n", names[index]);
    }
    out.push('\n');
    out
}

/// The run as a JSON object for `conclave replay`.
fn record(
    chat: &args::Chat,
    members: &[AnyMember],
    settings: &Settings,
    messages: &[Message],
    device: &str,
    answer: &Answer,
) -> serde_json::Value {
    json!({
        "question": messages.last().map(|question| &question.content),
        "messages": messages,
        "answer": answer.text,
        "stopped": answer.stopped,
        "device": device,
        "members": members.iter().map(TakePart::name).collect::<Vec<_>>(),
        // NaN, for an unknown strength, is null in JSON.
        "strengths": members.iter().map(TakePart::strength).collect::<Vec<_>>(),
        "chats": members.iter().map(TakePart::chats).collect::<Vec<_>>(),
        "counters": members.iter().map(counters).collect::<Vec<_>>(),
        "servers": members.iter().map(server).collect::<Vec<_>>(),
        "settings": settings,
        "sampling": chat.drawing.sampling(),
        "thinking": chat.members.thinking,
        "thoughts": answer.thoughts,
        "left": answer.left,
        "rounds": answer.rounds,
    })
}

/// Tokens that a member ran; null if it runs elsewhere.
fn counters(member: &AnyMember) -> serde_json::Value {
    match member {
        AnyMember::Local(member) => json!(member.counters()),
        AnyMember::Remote(_) | AnyMember::Away(_) => serde_json::Value::Null,
    }
}

/// Address and abilities of a member's server, without its key; null if the member runs here, or
/// its server is away.
fn server(member: &AnyMember) -> serde_json::Value {
    match member {
        AnyMember::Local(_) | AnyMember::Away(_) => serde_json::Value::Null,
        AnyMember::Remote(member) => {
            let server = member.server();
            json!({
                "host": server.host(), "model": server.model(), "can": server.abilities().name(),
            })
        }
    }
}

fn read_line(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut line = String::new();
    let read = input.read_line(&mut line);
    if read.map_err(|error| Failure::file(Path::new("standard input"), error))? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks the questions of `input`: `b` leaves out all turns before it and fails, `c` can't be
    /// recorded, `e` can't be printed. Returns the conversation with each question, and the
    /// outcome.
    fn asked(prompts: bool, input: &str) -> (Vec<String>, Result<(), Failure>) {
        let mut asked = Vec::new();
        let opening = vec![Message::new("system", "s")];
        let turn = |messages: &mut Vec<Message>| {
            let said = messages.iter().map(|message| message.content.as_str());
            asked.push(said.collect::<Vec<_>>().join(" "));
            let question = messages.last().unwrap().content.clone();
            if question == "b" {
                messages.drain(1..messages.len() - 1);
                return Err(Failure::Usage("it is cold".to_owned()));
            }
            messages.push(Message::new("assistant", question.to_uppercase()));
            match question.as_str() {
                "c" => Err(Failure::Usage("the disk is full".to_owned())),
                "e" => Err(Failure::Output(std::io::ErrorKind::BrokenPipe.into())),
                _ => Ok(()),
            }
        };
        let outcome = each_question(&mut input.as_bytes(), prompts, opening, turn);
        (asked, outcome)
    }

    #[test]
    fn a_failure_costs_a_person_no_more_than_its_question() {
        let (conversations, outcome) = asked(true, "a\nb\nc\nd\n\nnever\n");
        assert!(outcome.is_ok());
        assert_eq!(
            conversations,
            ["s a", "s a A b", "s a A c", "s a A c C d"],
            "the turns before it stay, and an answer that could not be recorded"
        );
        // Without standard output no answer is seen.
        let (conversations, outcome) = asked(true, "e\na\n");
        assert!(matches!(outcome, Err(Failure::Output(_))));
        assert_eq!(conversations, ["s e"]);
    }

    #[test]
    fn a_pipe_ends_at_its_end_or_the_first_failure() {
        let (conversations, outcome) = asked(false, "\na\n\n  \nd");
        assert!(outcome.is_ok());
        assert_eq!(conversations, ["s a", "s a A d"]);
        let (conversations, outcome) = asked(false, "a\nb\nd\n");
        assert_eq!(outcome.unwrap_err().to_string(), "it is cold");
        assert_eq!(conversations, ["s a", "s a A b"]);
    }

    #[test]
    fn a_terminal_is_shown_no_commands() {
        let text = "é\u{1b}]0;title\u{7}\n\t🙂\u{9b}2J";
        assert_eq!(
            for_reading(text, true),
            "é\u{fffd}]0;title\u{fffd}\n\t🙂\u{fffd}2J"
        );
        assert_eq!(for_reading(text, false), text);
    }
}
