//! The filter `wordwrap`, by the rules of Python's `textwrap`.

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Error, ErrorKind};

use crate::template_functions::by_name;

/// Ends of lines to Python's `splitlines`, beside `\r\n`.
const ENDS: &str = "\n\r\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{85}\u{2028}\u{2029}";

/// `text|wordwrap(width, break_long_words, wrapstring, break_on_hyphens)`.
pub(crate) fn wordwrap(text: String, args: Rest<ValueOrKwargs>) -> Result<String, Error> {
    let names = [
        "width",
        "break_long_words",
        "wrapstring",
        "break_on_hyphens",
    ];
    let options = by_name(&names, args)?;
    let flag = |name| Ok::<_, Error>(options.get::<Option<bool>>(name)?.unwrap_or(true));
    let wrap = Wrap {
        width: options.get::<Option<usize>>("width")?.unwrap_or(79),
        breaks_words: flag("break_long_words")?,
        at_hyphens: flag("break_on_hyphens")?,
    };
    let end = options.get::<Option<String>>("wrapstring")?;
    options.assert_all_used()?;
    if wrap.width == 0 {
        let why = "the width of `wordwrap` has to be above 0";
        return Err(Error::new(ErrorKind::InvalidOperation, why));
    }
    let text = text.replace("\r\n", "\n");
    let whole = text.strip_suffix(|letter| ENDS.contains(letter));
    let lines = whole.unwrap_or(&text).split(|letter| ENDS.contains(letter));
    let lines = lines.map(|line| wrap.lines(line).join(end.as_deref().unwrap_or("\n")));
    let lines: Vec<String> = lines.collect();
    Ok(lines.join(end.as_deref().unwrap_or("\n")))
}

/// White space at which a line may end; other spaces hold words together.
fn is_space(letter: char) -> bool {
    matches!(letter, '\t' | '\n' | '\u{b}' | '\u{c}' | '\r' | ' ')
}

fn is_letter(letter: char) -> bool {
    letter.is_alphabetic()
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_word_or_mark(letter: char) -> bool {
    is_word(letter) || "!\"'&.,?".contains(letter)
}

struct Wrap {
    /// At least 1.
    width: usize,
    breaks_words: bool,
    at_hyphens: bool,
}

impl Wrap {
    /// Breaks a line.
    fn lines(&self, line: &str) -> Vec<String> {
        let letters: Vec<char> = line.chars().collect();
        let chunks = self.chunks(&letters);
        let mut chunks = chunks.iter().copied().peekable();
        let mut rest: Option<&[char]> = None;
        let mut lines = Vec::new();
        let is_blank = |chunk: &[char]| chunk.iter().all(|letter| letter.is_whitespace());
        while let Some(first) = rest.take().or_else(|| chunks.next()) {
            let mut next = Some(first);
            if is_blank(first) && !lines.is_empty() {
                next = chunks.next();
            }
            let (mut taken, mut length) = (Vec::new(), 0);
            while let Some(chunk) = next.filter(|chunk| length + chunk.len() <= self.width) {
                taken.push(chunk);
                length += chunk.len();
                next = chunks.next();
            }
            if let Some(chunk) = next.filter(|chunk| chunk.len() > self.width) {
                if self.breaks_words {
                    let (part, after) = chunk.split_at(self.cut(chunk, self.width - length));
                    taken.push(part);
                    next = Some(after);
                } else if taken.is_empty() {
                    taken.push(chunk);
                    next = None;
                }
            }
            taken.pop_if(|last| is_blank(last));
            if !taken.is_empty() {
                lines.push(taken.concat().into_iter().collect());
            }
            rest = next;
        }
        lines
    }

    /// Letters of a long word that go on a line with so much room: up to its last hyphen there,
    /// if anything else comes before that.
    fn cut(&self, chunk: &[char], room: usize) -> usize {
        let part = &chunk[..room];
        let hyphen = part.iter().rposition(|&letter| letter == '-');
        let hyphen = hyphen.filter(|&at| part[..at].iter().any(|&letter| letter != '-'));
        hyphen
            .filter(|_| self.at_hyphens)
            .map_or(room, |hyphen| hyphen + 1)
    }

    /// Splits a line into white space and parts of words, none of which is empty.
    fn chunks<'a>(&self, line: &'a [char]) -> Vec<&'a [char]> {
        let mut chunks = Vec::new();
        let mut start = 0;
        while start < line.len() {
            let end = self.end_of_chunk(line, start);
            chunks.push(&line[start..end]);
            start = end;
        }
        chunks
    }

    fn end_of_chunk(&self, line: &[char], start: usize) -> usize {
        let run = |is: fn(char) -> bool| {
            let others = line[start..].iter().position(|&letter| !is(letter));
            others.map_or(line.len(), |count| start + count)
        };
        if is_space(line[start]) {
            return run(is_space);
        }
        if !self.at_hyphens {
            return run(|letter| !is_space(letter));
        }
        if is_dash(line, start) {
            return run(|letter| letter == '-');
        }
        let ends = |&end: &usize| {
            line.get(end).is_none_or(|&letter| is_space(letter))
                || is_hyphenated(line, end)
                || is_dash(line, end)
        };
        let end = (start + 1..=line.len()).find(ends).unwrap_or(line.len());
        end + usize::from(is_hyphenated(line, end))
    }
}

/// Whether a dash of several hyphens begins here, between words.
fn is_dash(line: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| line[before]);
    let hyphens = line[at..].iter().take_while(|&&letter| letter == '-');
    let hyphens = hyphens.count();
    before.is_some_and(is_word_or_mark)
        && hyphens > 1
        && line.get(at + hyphens).is_some_and(|&next| is_word(next))
}

/// Whether this is the hyphen of a word of letters.
fn is_hyphenated(line: &[char], at: usize) -> bool {
    if line.get(at) != Some(&'-') {
        return false;
    }
    let before = |count: usize, is: fn(char) -> bool| {
        at.checked_sub(count).is_some_and(|place| is(line[place]))
    };
    let after =
        |count: usize, is: fn(char) -> bool| line.get(at + count).is_some_and(|&next| is(next));
    let hyphen = |letter: char| letter == '-';
    let begins = before(1, is_letter) && before(2, is_letter)
        || before(1, is_word_or_mark) && before(2, hyphen) && before(3, is_letter);
    let goes_on = after(2, is_letter) || after(2, hyphen) && after(3, is_letter);
    begins && after(1, is_letter) && goes_on
}
