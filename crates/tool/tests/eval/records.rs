//! Records: resumed, reported on again, and with every round.

use super::*;

#[test]
fn a_record_goes_on_where_it_was_cut_off() {
    let tasks = written("goes-on.jsonl", QUESTIONS);
    let (whole, cut) = (free("whole.jsonl"), free("cut.jsonl"));
    let wanted = json_of(&["--tasks", &tasks, "--record", &whole]);
    let text = std::fs::read_to_string(&whole).unwrap();
    let second = text.match_indices('\n').nth(1).unwrap().0;
    std::fs::write(&cut, &text[..second + 100]).unwrap();
    let found = json_of(&["--tasks", &tasks, "--record", &cut, "--resume"]);
    assert_eq!(answers(&cut), answers(&whole));
    let rights = |report: &Value| {
        let ways = report["figures"]["ways"].as_array().unwrap().iter();
        ways.map(|way| way["right"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(rights(&found), rights(&wanted));
    assert_eq!(
        lines(&cut)[1],
        lines(&whole)[1],
        "seconds and all: not asked again"
    );

    // Judged by the file as it is now.
    written("goes-on.jsonl", &QUESTIONS.replace("no such words", "11"));
    let again = json_of(&["--tasks", &tasks, "--record", &cut, "--resume"]);
    assert_eq!(way(&again, "Ada alone, greedy")["right"], 3);
    assert_eq!(lines(&cut).len(), 4, "nothing was asked");

    let said = failure_of(&["--tasks", &tasks, "--record", &cut]);
    assert!(said.contains("--resume"), "{said}");
    let other = [
        "--tasks", &tasks, "--record", &cut, "--resume", "--tokens", "9",
    ];
    assert!(failure_of(&other).contains("other members or settings"));
    assert_eq!(lines(&cut).len(), 4, "a refusal changes nothing");
}

/// Figures of records equal those of the run, and records of several task files form one run.
#[test]
fn a_report_is_made_again_from_records() {
    let ask = |name: &str, questions: &str| {
        let tasks = written(&format!("{name}.jsonl"), questions);
        let record = free(&format!("{name}-record.jsonl"));
        let figures = json_of(&[
            "--tasks",
            &tasks,
            "--samples",
            "2",
            "--draws",
            "4,5",
            "--record",
            &record,
        ]);
        (record, figures["figures"].clone())
    };
    let questions: Vec<&str> = QUESTIONS.trim().lines().collect();
    let (all, wanted) = ask("again", QUESTIONS);
    let found = json_of(&["--report", &all]);
    assert_eq!(found["figures"], wanted);

    let (first, _) = ask("first", &questions[..2].join("\n"));
    let (second, _) = ask("second", questions[2]);
    let both = json_of(&["--report", &first, &second]);
    assert_eq!(
        both["figures"]["groups"],
        json!({ "first": 2, "second": 1 })
    );
    let right = |report: &Value| way(report, "Ada alone, greedy")["right"].clone();
    assert_eq!(right(&both), right(&found));
    let text = String::from_utf8(eval(&["--report", &first, &second]).stdout).unwrap();
    assert!(text.contains("| % right of 3 | all |"), "{text}");
    assert!(
        text.contains("\nβ: every member gets 1 of 3 questions wrong"),
        "{text}"
    );

    let said = failure_of(&["--report", &first, &first]);
    assert!(said.contains("in an earlier record"), "{said}");
    let changed = std::fs::read_to_string(&second).unwrap();
    let changed = written(
        "changed-record.jsonl",
        &changed.replacen("\"Quill\"", "\"Bo\"", 1),
    );
    let said = failure_of(&["--report", &first, &changed]);
    assert!(said.contains("other members"), "{said}");
    assert!(failure_of(&["--report", "no-such-file.jsonl"]).contains("no-such-file.jsonl"));
    let tasks = written("again-tasks.jsonl", QUESTIONS);
    assert!(failure_of(&["--report", &tasks]).contains("--record"));
}

#[test]
fn a_changed_question_counts_as_it_was_asked_last() {
    let tasks = written("changes.jsonl", QUESTIONS);
    let record = free("changes-record.jsonl");
    json_of(&["--tasks", &tasks, "--record", &record]);
    // The second of three questions, so that order matters.
    written("changes.jsonl", &QUESTIONS.replace("58 - 23", "58 - 24"));
    let wanted = json_of(&["--tasks", &tasks, "--record", &record, "--resume"]);
    assert_eq!(lines(&record).len(), 5, "it was asked again");
    assert_eq!(lines(&record)[4]["question"], "What is 58 - 24?");
    let found = json_of(&["--report", &record]);
    assert_eq!(found["figures"], wanted["figures"]);
    // In two records it is still refused.
    let said = failure_of(&["--report", &record, &record]);
    assert!(said.contains("in an earlier record"), "{said}");
}

#[test]
fn a_damaged_line_is_named_and_can_be_deleted() {
    let tasks = written("damaged.jsonl", QUESTIONS);
    let record = free("damaged-record.jsonl");
    let wanted = json_of(&["--tasks", &tasks, "--record", &record]);
    let whole = std::fs::read_to_string(&record).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    // The third line of the file, a blank one included.
    let damaged = [lines[0], "", &lines[1][..99], lines[2], lines[3], ""];
    std::fs::write(&record, damaged.join("\n")).unwrap();
    for args in [
        &["--report", &record][..],
        &["--tasks", &tasks, "--record", &record, "--resume"],
    ] {
        let said = failure_of(args);
        assert!(said.contains("-record.jsonl, line 3: "), "{said}");
        assert!(!said.contains("line 1"), "{said}");
        assert!(said.contains("delete the line, and --resume"), "{said}");
    }
    let rest = [lines[0], lines[2], lines[3], ""];
    std::fs::write(&record, rest.join("\n")).unwrap();
    let found = json_of(&["--tasks", &tasks, "--record", &record, "--resume"]);
    let name = "Ada alone, greedy";
    assert_eq!(way(&found, name)["right"], way(&wanted, name)["right"]);
    assert_eq!(answers(&record).len(), 3);

    std::fs::write(&record, format!("{}\n{}\n", &lines[0][..99], lines[1])).unwrap();
    let said = failure_of(&["--report", &record]);
    assert!(
        said.contains("line 1: ") && said.contains("again"),
        "{said}"
    );
    assert!(!said.contains("delete the line"), "{said}");
}

#[test]
fn rounds_are_recorded_in_full() {
    let tasks = written("rounds.jsonl", QUESTIONS);
    let record = free("rounds-record.jsonl");
    let report = json_of(&[
        "--tasks",
        &tasks,
        "--segment-tokens",
        "8",
        "--record",
        &record,
    ]);
    for line in &lines(&record)[1..] {
        let rule = &line["rules"][0];
        let played = rule["played"].as_array().unwrap();
        assert_eq!(rule["rounds"], played.len());
        let texts: String = played
            .iter()
            .map(|one| one["text"].as_str().unwrap())
            .collect();
        assert_eq!(rule["text"], texts);
        for one in played {
            let (round, writer) = (&one["round"], one["writer"].as_u64().unwrap());
            let winner = usize::try_from(round["winner"].as_u64().unwrap()).unwrap();
            assert_eq!(round["drafters"][winner], writer);
            assert_eq!(round["candidates"][winner]["text"], one["text"]);
            assert_eq!(round["scores"].as_array().unwrap().len(), 3);
        }
        let times = played.iter().map(|one| one["seconds"].as_f64().unwrap());
        let times: Vec<f64> = times.chain([rule["seconds"].as_f64().unwrap()]).collect();
        assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
        assert_eq!(rule["stopped"] == "ended", rule["cut"] == false, "{rule}");
    }
    let times = &report["figures"]["rules"][0]["times"];
    assert!(times["firstP95"].as_f64().unwrap() >= times["first"].as_f64().unwrap());
    assert!(times["overSlowest"].as_f64().unwrap() > 0.0, "{times}");
}
