//! Segments: a member's draft cut to whole words, as it crosses between members.
//!
//! A draft of L tokens usually stops inside a word, at a place that depends on the drafter's
//! tokenizer. Members with other tokenizers would have to continue half a word, so the draft is cut
//! back to a place where every tokenizer can start afresh. The rest isn't lost: the next round
//! drafts it again, and the answer is always exactly the accepted segments joined.

use serde::{Deserialize, Serialize};

/// Segment that a member offers in a round.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Text, cut by [`cut`]. Empty only if the drafter ended the answer at once, or had no complete
    /// character yet.
    pub text: String,
    /// The drafter produced an end-of-answer token after the text.
    #[serde(default)]
    pub ended: bool,
}

/// A drafted segment before it is cut to whole words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Draft {
    /// Text; an incomplete character at the end is withheld.
    pub text: String,
    /// The member ended the answer after it.
    pub ended: bool,
    /// Tokens drawn, without the end token.
    pub tokens: usize,
    /// Another draft by the same member, where [`Settings::branch`](crate::Settings::branch) asks
    /// for one; it has no second itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(optional, type = "Omit<Draft, 'second'>"))]
    pub second: Option<Box<Self>>,
}

/// Cuts a draft to whole words: the longest prefix of `text` that doesn't stop inside a word. Never
/// empty unless `text` is.
///
/// | the draft | the segment |
/// |---|---|
/// | ended the answer | whole |
/// | ends with punctuation, or with a newline | whole |
/// | ends in a script that writes no spaces (Han, kana, Thai, Lao, Khmer, Burmese …) | whole |
/// | ends in a word, a number or an emoji | up to the last word boundary |
/// | ends with spaces after a word | without those spaces |
/// | has no word boundary after its first word | whole |
///
/// A word boundary lies before the white space between two words, so that the space opens the next
/// segment, as most tokenizers expect (" word" is one token); newlines in that white space stay
/// with the segment. Another boundary lies after a character of a script without spaces if a word
/// of another script follows. An apostrophe after a letter may be inside a word ("don'" + "t") and
/// counts as part of it.
///
/// ```
/// use conclave_ensemble::cut;
///
/// assert_eq!(cut(" the quick bro", false), " the quick");
/// assert_eq!(cut(" The answer is 42", true), " The answer is 42");
/// assert_eq!(cut(" that is all.", false), " that is all.");
/// assert_eq!(cut(" hello", false), " hello");
/// assert_eq!(cut("Steps:\n\n1", false), "Steps:\n\n");
/// assert_eq!(cut("これはLlam", false), "これは");
/// ```
pub fn cut(text: &str, ended: bool) -> &str {
    if ended || ends_whole(text) {
        return text;
    }
    match last_boundary(text) {
        Some(end) => &text[..end],
        None => text,
    }
}

/// Whether a segment may end with the last character of `text`.
fn ends_whole(text: &str) -> bool {
    // Marks and joiners belong to the preceding character.
    let mut backwards = text.chars().rev().skip_while(|&c| is_extend(c));
    match backwards.next() {
        None => true,
        Some('\'' | '\u{2019}') => !backwards.next().is_some_and(char::is_alphanumeric),
        Some(last) => is_newline(last) || is_spaceless(last) || is_punctuation(last),
    }
}

/// Byte offset of the last word boundary after some visible text: the segment's end.
fn last_boundary(text: &str) -> Option<usize> {
    let mut boundary = None;
    // End of the last visible character, if there is one.
    let mut visible = None;
    // The last visible character is of a script without spaces.
    let mut spaceless = false;
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        if c.is_whitespace() {
            if visible.is_some() {
                boundary = if is_newline(c) {
                    Some(end)
                } else {
                    // Spaces after a newline (an indentation) go to the next segment.
                    boundary.max(visible)
                };
            }
        } else if is_extend(c) {
            visible = Some(end);
        } else {
            // No word starts with punctuation: "です." and "（a" have no boundary inside.
            if spaceless && visible == Some(at) && !is_spaceless(c) && !is_punctuation(c) {
                boundary = Some(at);
            }
            spaceless = is_spaceless(c);
            visible = Some(end);
        }
    }
    boundary
}

fn is_newline(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Punctuation of scripts with spaces. Symbols beyond ASCII (emoji, °, €) are not listed: they
/// may begin something longer, such as a joined emoji or a unit.
fn is_punctuation(c: char) -> bool {
    (c.is_ascii_punctuation() && c != '_')
        || matches!(c,
            '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}'
            | '\u{37e}' | '\u{387}' // Greek
            | '\u{55a}'..='\u{55f}' | '\u{589}' | '\u{58a}' // Armenian
            | '\u{5be}' | '\u{5c0}' | '\u{5c3}' | '\u{5c6}' | '\u{5f3}' | '\u{5f4}' // Hebrew
            | '\u{60c}' | '\u{60d}' | '\u{61b}' | '\u{61d}'..='\u{61f}' | '\u{66a}'..='\u{66d}'
            | '\u{6d4}' // Arabic
            | '\u{700}'..='\u{70d}' // Syriac
            | '\u{964}' | '\u{965}' | '\u{970}' // dandas
            | '\u{10fb}' | '\u{1360}'..='\u{1368}' // Georgian, Ethiopic
            | '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}'
            | '\u{207d}' | '\u{207e}' | '\u{2308}'..='\u{230b}' | '\u{2329}' | '\u{232a}'
            | '\u{2e00}'..='\u{2e5d}')
}

/// Scripts that don't put spaces between words, with their punctuation and full-width forms.
pub(crate) fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' // Thai, Lao
        | '\u{f00}'..='\u{109f}' // Tibetan, Burmese
        | '\u{1780}'..='\u{17ff}' // Khmer
        | '\u{1950}'..='\u{19ff}' // Tai Le, New Tai Lue, Khmer symbols
        | '\u{1a20}'..='\u{1aaf}' | '\u{1b00}'..='\u{1b7f}' // Tai Tham, Balinese
        | '\u{2e80}'..='\u{2fff}' // radicals
        | '\u{3001}'..='\u{312f}' // Han punctuation, kana, bopomofo
        | '\u{3190}'..='\u{31ff}' | '\u{3300}'..='\u{a4cf}' // Han, Yi
        | '\u{a980}'..='\u{a9df}' | '\u{a9e0}'..='\u{a9ff}' // Javanese, Burmese
        | '\u{aa60}'..='\u{aadf}' // Burmese, Tai Viet
        | '\u{f900}'..='\u{faff}' | '\u{fe10}'..='\u{fe1f}' | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}'
        | '\u{ff5b}'..='\u{ff9f}' // full-width punctuation, half-width kana
        | '\u{1aff0}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}')
}

/// Marks, joiners and variation selectors, which are part of the preceding character. Marks inside
/// the blocks of scripts without spaces needn't be listed.
fn is_extend(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{5bf}'
        | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}'
        | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{200c}' | '\u{200d}'
        | '\u{20d0}'..='\u{20f0}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}'
        | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0020}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_cut_to_whole_words() {
        // (draft, segment)
        let cases = [
            ("", ""),
            ("hello wor", "hello"),
            (" hello there wor", " hello there"),
            // No inner boundary: whole.
            ("hello", "hello"),
            (" hello", " hello"),
            ("\n\nhello", "\n\nhello"),
            ("42", "42"),
            // A number may continue.
            ("the sum is 12", "the sum is"),
            ("it costs 3.1", "it costs"),
            // Spaces go to the next segment, newlines stay.
            ("hello world ", "hello world"),
            ("hello ", "hello"),
            ("hello world\n", "hello world\n"),
            ("one two\n\n", "one two\n\n"),
            ("one\ntw", "one\n"),
            ("if x:\n    y", "if x:\n"),
            ("if x:\n    ", "if x:\n"),
            ("one \r\n two", "one \r\n"),
            ("one\n two thr", "one\n two"),
            ("one \n\n  tw", "one \n\n"),
            ("a\u{a0}b", "a"),
            // White space alone has no word boundary.
            (" ", " "),
            ("  \t", "  \t"),
            ("\n  ", "\n  "),
            // Punctuation ends a segment.
            ("Yes, indeed.", "Yes, indeed."),
            ("he said \u{201c}no\u{201d}", "he said \u{201c}no\u{201d}"),
            ("well-", "well-"),
            ("वह गया।", "वह गया।"),
            ("لماذا؟", "لماذا؟"),
            // But half a contraction or half an identifier doesn't.
            ("I don'", "I"),
            ("I don\u{2019}", "I"),
            ("say '", "say '"),
            ("call my_", "call"),
            // Scripts without spaces.
            ("今日は良い天気", "今日は良い天気"),
            ("今日は。", "今日は。"),
            ("价格是42", "价格是"),
            ("これは Llam", "これは"),
            ("これはLlama と Qw", "これはLlama と"),
            ("使用Llama模型", "使用Llama模型"),
            ("สวัสดีครับ", "สวัสดีครับ"),
            ("สวัสดี abc", "สวัสดี"),
            ("か\u{3099}x", "か\u{3099}"),
            ("葛\u{e0100}", "葛\u{e0100}"),
            ("我 葛\u{e0100}", "我 葛\u{e0100}"),
            ("now stop!\u{fe0f}", "now stop!\u{fe0f}"),
            ("葛\u{e0100}x", "葛\u{e0100}"),
            // Hangul has spaces.
            ("안녕 세계", "안녕"),
            // A mark belongs to its letter and is not punctuation.
            ("un cafe\u{301}", "un"),
            ("cafe\u{301} no", "cafe\u{301}"),
            ("नमस्ते दुनि", "नमस्ते"),
            // Emoji may continue after a joiner.
            ("hi 👩\u{200d}", "hi"),
            ("hi 👩\u{200d}👧", "hi"),
            ("👋", "👋"),
        ];
        for (draft, segment) in cases {
            assert_eq!(cut(draft, false), segment, "draft {draft:?}");
            assert_eq!(cut(draft, true), draft, "ended draft {draft:?}");
        }
    }
}
