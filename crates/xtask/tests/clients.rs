//! The table of clients in docs/tool.md names tests that exist.

use std::fs;
use std::path::PathBuf;

/// Letters and digits of a text, in words: names of tests differ by language in the rest.
fn words(text: &str) -> String {
    let kept = text.to_lowercase().replace('\'', "");
    let words = kept.split(|one: char| !one.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[test]
fn every_cell_is_the_beginning_of_a_tests_name() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| fs::read_to_string(root.join(file)).expect(file);
    let document = read("docs/tool.md");
    let (_, table) = document.split_once("### Clients").expect("it is there");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let tests = rows.iter().position(|row| row[0] == "tests").unwrap();
    let files = rows[tests].iter().skip(1);
    let files: Vec<String> = files
        .map(|file| words(&read(file.trim_matches('`'))))
        .collect();
    let mut shown = 0;
    for row in &rows[tests + 2..] {
        assert_eq!(row.len(), files.len() + 1, "{row:?}");
        for (cell, file) in row[1..]
            .iter()
            .zip(&files)
            .filter(|(cell, _)| **cell != "–")
        {
            assert!(file.contains(&words(cell)), "{}: {cell}", row[0]);
            shown += 1;
        }
    }
    assert!(shown > 30, "{shown}");
}
