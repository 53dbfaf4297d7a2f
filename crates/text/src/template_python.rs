//! Literals and signs of Python that the interpreter's parser does not know, in words that it does.

use std::fmt::Write;

/// Words after which a `+` is a sign; after any other it is a sum.
const BEFORE_SIGNS: &str = "and do elif else if in is not or print";

/// Rewrites a template without the escapes `\a`, `\v` and `\U0001F600`, octal ones above a byte
/// and the sign `+`, which becomes two `-`. No line is added or removed.
pub(crate) fn understood(source: String) -> String {
    // No published template needs these, and the page's engine is to be small.
    if cfg!(target_family = "wasm") {
        return source;
    }
    let mut plain = String::with_capacity(source.len());
    let mut rest = source.as_str();
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        plain.push_str(before);
        let length = match tag.as_bytes().get(1) {
            Some(b'%') if end_of_raw(tag).is_none() => rewrite(tag, "%}", &mut plain),
            Some(b'{') => rewrite(tag, "}}", &mut plain),
            sign => {
                let end = match sign {
                    Some(b'%') => end_of_raw(tag).unwrap_or(tag.len()),
                    Some(b'#') => tag.find("#}").unwrap_or(tag.len()),
                    _ => 1,
                };
                plain.push_str(&tag[..end]);
                end
            }
        };
        rest = &tag[length..];
    }
    plain.push_str(rest);
    plain
}

/// Length of a raw block that begins here, up to its last tag.
fn end_of_raw(tag: &str) -> Option<usize> {
    let name = |tag: &str| {
        let inside = tag.strip_prefix("{%")?.split_once("%}")?.0;
        let ends = |letter: char| "-+".contains(letter) || letter.is_whitespace();
        Some(inside.trim_matches(ends).to_owned())
    };
    if name(tag)? != "raw" {
        return None;
    }
    let tags = tag.match_indices("{%").map(|(at, _)| at);
    let ends = |at: &usize| name(&tag[*at..]).is_some_and(|name| name == "endraw");
    Some(tags.into_iter().find(ends).unwrap_or(tag.len()))
}

/// Rewrites a tag up to its end, and returns its length.
fn rewrite(tag: &str, end: &str, plain: &mut String) -> usize {
    let mut depth = 0_usize;
    // A sign after the opening is about white space.
    let mut at = if tag[2..].starts_with(['-', '+']) {
        3
    } else {
        2
    };
    plain.push_str(&tag[..at]);
    let mut begins = true;
    while let Some(letter) = tag[at..].chars().next() {
        let rest = &tag[at..];
        if depth == 0 && rest.starts_with(end) {
            break;
        }
        let word = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let word = &rest[..word.unwrap_or(rest.len())];
        let length = match letter {
            '"' | '\'' => string(rest, plain),
            // Before an end it is about white space, too.
            '+' if begins && !rest[1..].starts_with(end) => {
                plain.push_str("--");
                1
            }
            _ => {
                let length = word.len().max(letter.len_utf8());
                plain.push_str(&rest[..length]);
                length
            }
        };
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if !letter.is_whitespace() {
            begins = match word {
                "" => !matches!(letter, '"' | '\'' | ')' | ']' | '}' | '.'),
                word => BEFORE_SIGNS.split(' ').any(|one| one == word),
            };
        }
        at += length;
    }
    at
}

/// Rewrites a string literal, and returns its length.
fn string(rest: &str, plain: &mut String) -> usize {
    let quote = rest.chars().next();
    let mut letters = rest.char_indices();
    plain.extend(letters.next().map(|(_, quote)| quote));
    while let Some((at, letter)) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            if Some(letter) == quote {
                return at + 1;
            }
            continue;
        }
        let escape = &rest[at + 1..];
        match long(escape) {
            Some((letter, length)) => {
                match letter {
                    '"' | '\'' | '\\' | '\0'..='\u{1f}' => {
                        // Writing to a `String` can't fail.
                        let _ = write!(plain, "\\x{:02x}", u32::from(letter));
                    }
                    letter => plain.push(letter),
                }
                letters.nth(length - 1);
            }
            None => {
                plain.push('\\');
                plain.extend(letters.next().map(|(_, letter)| letter));
            }
        }
    }
    rest.len()
}

/// The letter of an escape that the interpreter does not know, and the escape's length in ASCII.
fn long(escape: &str) -> Option<(char, usize)> {
    let number = |digits: &str, radix: u32| {
        let is_number = digits.chars().all(|digit| digit.is_digit(radix));
        let number = u32::from_str_radix(digits, radix).ok();
        number.filter(|_| is_number).and_then(char::from_u32)
    };
    match escape.chars().next()? {
        'a' => Some(('\u{7}', 1)),
        'v' => Some(('\u{b}', 1)),
        'U' => Some((number(escape.get(1..9)?, 16)?, 9)),
        '4'..='7' => Some((number(escape.get(..3)?, 8)?, 3)),
        _ => None,
    }
}
