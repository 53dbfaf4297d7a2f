//! Task files as users write them, valid and invalid.

use super::*;

fn one(line: &str) -> Task {
    let mut tasks = parse(Path::new("mine.jsonl"), line).unwrap();
    assert_eq!(tasks.len(), 1);
    tasks.remove(0)
}

fn error(text: &str) -> String {
    parse(Path::new("mine.jsonl"), text)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_text_or_one_of_a_list_is_found_as_words() {
    let task = one(r#"{"question": "q", "answer": ["8", "eight"]}"#);
    for right in ["8", "It has eight legs.", "8 legs", "(8)"] {
        assert!(task.check(right), "{right}");
    }
    for wrong in ["18", "eighteen", "seven", ""] {
        assert!(!task.check(wrong), "{wrong}");
    }
}

#[test]
fn a_regex_is_searched_in_the_trimmed_answer() {
    let task = one(r#"{"question": "q", "answer": {"regex": "(?i)^\\W*yes\\W*$"}}"#);
    assert!(task.check("\n Yes.  "));
    assert!(!task.check("yes or no"));
    let end = one(r#"{"question": "q", "answer": {"regex": "^up$"}}"#);
    assert!(end.check(" up\n") && !end.check("up to"));
}

#[test]
fn what_must_not_be_said_makes_it_wrong() {
    let task = one(r#"{"question": "q", "answer": "Tuesday", "not": ["Sunday", "Wednesday"]}"#);
    assert!(task.check("Tuesday, not Monday"));
    assert!(!task.check("Tuesday or wednesday"));
    assert!(task.check("Tuesday on wednesdays"));
    let alone = one(r#"{"question": "q", "answer": {"regex": "red"}, "not": "blue"}"#);
    assert!(alone.check("red") && !alone.check("red, blue"));
    let choice = one(r#"{"question": "q", "choices": ["a", "b"], "answer": "a", "not": "maybe"}"#);
    assert!(choice.check("a") && !choice.check("maybe a"));
}

#[test]
fn a_choice_names_the_right_one_alone() {
    let task =
        one(r#"{"question": "q", "choices": ["Shark", "whale shark", "lion"], "answer": "shark"}"#);
    assert!(task.check("The shark. Yes, the SHARK."));
    for wrong in ["a lion", "shark or lion", "a whale shark", "sharks", ""] {
        assert!(!task.check(wrong), "{wrong}");
    }
    assert!(!task.check("the whale shark is a shark"));
    let longer =
        one(r#"{"question": "q", "choices": ["shark", "whale shark"], "answer": "whale shark"}"#);
    assert!(longer.check("the whale shark") && !longer.check("the shark"));
    assert_eq!(task.key("It is a lion!"), "lion");
    assert_eq!(task.key("a lion or a shark"), "shark, lion");
    assert_eq!(task.key("I don't know."), "i don't know");
    let sum = one(r#"{"question": "How many are 7\nand 5?", "answer": "12"}"#);
    assert_eq!(sum.key("7 + 5 = 12."), sum.key("It is 12"));
    assert_eq!(sum.key("Twelve!"), "twelve");
    let other = one(r#"{"question": "Who has 5?", "answer": "Ann"}"#);
    assert_eq!(other.key("Ann has 5."), "ann has 5");
}

#[test]
fn a_conversation_ends_with_its_question() {
    let task = one(r#"{"messages": [{"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello!"},
            {"role": "user", "content": "How many is 2 plus 2?"}], "answer": "4"}"#
        .replace('\n', " ")
        .as_str());
    assert_eq!(task.question, "How many is 2 plus 2?");
    let roles: Vec<&str> = task.messages.iter().map(|one| one.role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(
        task.key("It is 4"),
        "4",
        "the last question asks for a number"
    );
    let plain = one(r#"{"question": "q", "answer": "a"}"#);
    assert_eq!(plain.messages, [Message::user("q")]);
}

#[test]
fn code_is_right_if_it_passes_its_test() {
    let line = serde_json::json!({
        "question": "q",
        "answer": {"python": "assert f(2) == 4", "prefix": "def f(x):\n"},
        "not": "eval",
    });
    let task = one(&line.to_string());
    for right in [
        "return 2 * x",
        "```python\ndef f(x):\n    return x + x\n```",
    ] {
        assert!(task.check(right), "{right}");
    }
    for wrong in [
        "return x",
        "```\ndef f(x):\n    return 0\n```",
        "",
        "return eval('2*x')",
    ] {
        assert!(!task.check(wrong), "{wrong}");
    }
    assert!(task.code().is_some() && !task.is_open());
    assert_eq!(task.key("So:\n```\nreturn 4\n```\nIt is."), "return 4");
}

#[test]
fn an_open_task_has_no_right_answer() {
    let task = one(r#"{"question": "Tell me a story.", "answer": {"open": true}}"#);
    assert!(task.is_open() && !task.check("Once upon a time"));
}

#[test]
fn ids_are_given_or_the_lines() {
    let text = "\u{feff}{\"question\": \"a\", \"answer\": \"b\"}\r\n\n\
        {\"id\": 7, \"question\": \"c\", \"answer\": \"d\"}\n";
    let tasks = parse(Path::new("f"), text).unwrap();
    let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["1", "7"]);
    assert_eq!(tasks[1].question, "c");
    let twice = text.replace("\"id\": 7", "\"id\": \"1\"");
    assert!(error(&twice).starts_with("mine.jsonl, line 3: the id \"1\""));
}

#[test]
fn errors_name_file_line_and_what_to_write() {
    let good = r#"{"question": "a", "answer": "b"}"#;
    for (line, says) in [
        ("nonsense", "one question a line"),
        (r#"{"question": "a"}"#, "missing field `answer`"),
        (
            r#"{"question": "a", "answer": "b", "choice": []}"#,
            "unknown field `choice`",
        ),
        (
            r#"{"question": " ", "answer": "b"}"#,
            "\"question\" is empty",
        ),
        (r#"{"question": "a", "answer": ""}"#, "\"answer\" is empty"),
        (r#"{"question": "a", "answer": []}"#, "\"answer\" is empty"),
        (
            r#"{"question": "a", "answer": 4}"#,
            "\"answer\" must be a text",
        ),
        (
            r#"{"question": "a", "answer": {"regexp": "b"}}"#,
            "{\"regex\"",
        ),
        (
            r#"{"question": "a", "answer": {"regex": "("}}"#,
            "Rust's regex crate",
        ),
        (
            r#"{"question": "a", "answer": {"regex": "(?=b)"}}"#,
            "look-around",
        ),
        (
            r#"{"question": "a", "answer": "b", "not": [""]}"#,
            "\"not\" is empty",
        ),
        (
            r#"{"question": "a", "answer": "b", "not": 3}"#,
            "\"not\" must be",
        ),
        (
            r#"{"question": "a", "answer": "b", "choices": ["b"]}"#,
            "two texts or more",
        ),
        (
            r#"{"question": "a", "answer": "b", "choices": ["c", "d"]}"#,
            "among them",
        ),
        (
            r#"{"question": "a", "answer": "b", "choices": ["b", "B"]}"#,
            "each once",
        ),
        (
            r#"{"question": "a", "answer": ["b"], "choices": ["b", "c"]}"#,
            "one of the choices",
        ),
        (
            r#"{"id": [], "question": "a", "answer": "b"}"#,
            "\"id\" must be",
        ),
        (r#"{"answer": "b"}"#, "give either \"question\""),
        (
            r#"{"question": "a", "messages": [], "answer": "b"}"#,
            "give either \"question\"",
        ),
        (
            r#"{"messages": [{"role": "assistant", "content": "a"}], "answer": "b"}"#,
            "\"messages\" must alternate",
        ),
        (
            r#"{"messages": [{"role": "user", "text": "a"}], "answer": "b"}"#,
            "unknown field `text`",
        ),
        (
            r#"{"question": "a", "answer": {"python": ""}}"#,
            "\"python\" is empty",
        ),
        (
            r#"{"question": "a", "answer": {"prefix": "b"}}"#,
            "{\"python\"",
        ),
        (
            r#"{"question": "a", "answer": {"open": false}}"#,
            "{\"open\": true}",
        ),
    ] {
        let said = error(&format!("{good}\n{line}"));
        assert!(
            said.starts_with("mine.jsonl, line 2: ") && said.contains(says),
            "{said}"
        );
    }
    assert!(error("\n \n").contains("no question in it"));
    let missing = read(Path::new("no-such-file.jsonl"))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("no-such-file.jsonl"), "{missing}");
}

#[test]
fn hostile_patterns_are_refused_or_harmless() {
    let pattern = |pattern: &str| {
        let line = serde_json::json!({"question": "q", "answer": {"regex": pattern}});
        parse(Path::new("mine.jsonl"), &line.to_string())
    };
    for large in [
        "((a{100}){100}){100}".to_owned(),
        r"\w{5000}".to_owned(),
        "(".repeat(2000) + &")".repeat(2000),
    ] {
        assert!(pattern(&large).is_err(), "{large}");
    }
    // Exponential in a backtracking engine.
    let task = &pattern("^(a+)+$").unwrap()[0];
    assert!(!task.check(&("a".repeat(100_000) + "b")));
}
