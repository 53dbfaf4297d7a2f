//! Finds a text in an answer as whole words, ignoring case.

/// Normalises `text`: lower case, single spaces, no thousands separators (`1,250` is `1250`).
pub fn plain(text: &str) -> String {
    let lower = text.to_lowercase();
    let joined: Vec<&str> = lower.split_whitespace().collect();
    let joined = joined.join(" ");
    joined
        .char_indices()
        .filter(|&(place, letter)| letter != ',' || !groups_thousands(&joined, place))
        .map(|(_, letter)| letter)
        .collect()
}

/// Returns whether the comma at `place` follows a digit and precedes exactly three.
fn groups_thousands(text: &str, place: usize) -> bool {
    let digit = |letter: char| letter.is_ascii_digit();
    let after = text[place + 1..]
        .chars()
        .take_while(|&letter| digit(letter));
    text[..place].ends_with(digit) && after.count() == 3
}

/// Byte ranges of `wanted` in `text` as whole words, not adjacent to letters or digits; they may
/// overlap. Both are [`plain`].
pub fn places(text: &str, wanted: &str) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(place) = text.get(from..).and_then(|rest| rest.find(wanted)) {
        let (begin, end) = (from + place, from + place + wanted.len());
        let touches = text[..begin].ends_with(char::is_alphanumeric)
            || text[end..].starts_with(char::is_alphanumeric);
        if !touches {
            found.push(begin..end);
        }
        let Some(first) = wanted.chars().next() else {
            break;
        };
        from = begin + first.len_utf8();
    }
    found
}

/// Punctuation around words.
const MARKS: &[char] = &[
    '.', ',', ';', ':', '!', '?', '"', '\'', '(', ')', '[', ']', '*', '“', '”', '‘', '’',
];

/// Returns whether `text` contains the words of `wanted`, ignoring punctuation around both.
///
/// ```
/// use conclave_eval::words::has;
///
/// assert!(has("It is **Paris**, of course.", "paris"));
/// assert!(has("It is Paris.", "(Paris!)"));
/// assert!(has("about 1,250 people", "1250"));
/// assert!(!has("a comparison", "Paris"));
/// ```
pub fn has(text: &str, wanted: &str) -> bool {
    let wanted = plain(wanted);
    // A text of punctuation only is searched as it is.
    let words = Some(wanted.trim_matches(MARKS)).filter(|words| !words.is_empty());
    !wanted.is_empty() && !places(&plain(text), words.unwrap_or(&wanted)).is_empty()
}

/// Normalises `text` for comparison with another answer: [`plain`], without characters other than
/// letters and digits at the ends of words.
pub fn bare(text: &str) -> String {
    let plain = plain(text);
    let words = plain
        .split(' ')
        .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Last number of `text` in digits: `16` of `11 + 5 = 16.0 dollars.`
pub fn last_number(text: &str) -> Option<String> {
    let plain = plain(text);
    let numbers = plain.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let mut numbers = numbers.map(|number| number.trim_matches('.'));
    let last = numbers.rfind(|number| !number.is_empty())?;
    let whole = last
        .split_once('.')
        .filter(|(_, rest)| rest.bytes().all(|digit| digit == b'0'));
    Some(whole.map_or(last, |(whole, _)| whole).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_in_any_case_and_between_any_marks() {
        for text in [
            "Paris",
            "PARIS.",
            "(paris)",
            "_Paris_",
            "It's paris's best",
            "“Paris”",
        ] {
            assert!(has(text, "Paris"), "{text}");
        }
        for text in ["parish", "Comparis", "paris2", "2paris", "Par is", ""] {
            assert!(!has(text, "Paris"), "{text}");
        }
        // The first occurrence touches a letter, the second does not; occurrences may overlap.
        assert!(has("parisparis paris", "Paris"));
        assert!(has("xno no no", "no no"));
        assert!(has("aé é", "é"));
        assert!(!has("anything", " "));
    }

    #[test]
    fn space_between_words_does_not_matter_but_the_words_do() {
        assert!(has("South\n  America", "south america"));
        assert!(has("the south america trip", "South  America"));
        assert!(!has("south of America", "south america"));
    }

    #[test]
    fn only_commas_of_thousands_go() {
        assert_eq!(plain("1,250 and 1,234,567"), "1250 and 1234567");
        for kept in [
            "1,25",
            "1,2500",
            "a,250",
            "1, 250",
            "1,250x".trim_end_matches('x'),
        ] {
            assert_eq!(plain(kept).contains(','), kept != "1,250", "{kept}");
        }
        assert!(!has("1,250", "250"));
        assert!(has("1, 250", "250"));
    }

    #[test]
    fn bare_texts_are_equal_where_only_marks_differ() {
        assert_eq!(bare("The answer: **42**."), bare("the answer  42"));
        assert_eq!(bare("don't"), "don't");
        assert_ne!(bare("42"), bare("43"));
        assert_eq!(bare("…!"), "");
    }

    #[test]
    fn the_last_number_is_what_a_sum_comes_to() {
        for (text, wanted) in [
            ("11 + 5 = 16.0 dollars.", Some("16")),
            ("It is 1,250.", Some("1250")),
            ("2.50 or 3.5.", Some("3.5")),
            ("seven ...", None),
        ] {
            assert_eq!(last_number(text).as_deref(), wanted, "{text}");
        }
    }
}
