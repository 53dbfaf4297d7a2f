//! The texts of the bench: conversations of a length, and candidates that nobody drafted.

use conclave_ensemble::Candidate;
use conclave_member::{Member, Message};
use conclave_model::Sampling;

use crate::failure::Failure;

/// Candidates that a member verifies alone: those of two others.
const OTHERS: usize = 2;

/// Tokens of each.
const EACH: usize = 10;

/// Another conversation, so that of the next one all is run.
///
/// # Errors
/// What running reports.
pub async fn forget(member: &mut Member, sampling: Sampling) -> Result<(), Failure> {
    member.begin(&user("~".to_owned()), sampling, 0).await?;
    Ok(())
}

/// A conversation of about `tokens` tokens for this member: how many a word takes is found by trying.
///
/// # Errors
/// What running reports.
pub async fn conversation(
    member: &mut Member,
    tokens: usize,
    sampling: Sampling,
) -> Result<Vec<Message>, Failure> {
    const SHORT: usize = 4;
    const LONG: usize = 12;
    let mut lengths = [0, 0];
    for (length, words) in lengths.iter_mut().zip([SHORT, LONG]) {
        let messages = user(text_of(0, words));
        *length = member.begin(&messages, sampling, 0).await?.prefix;
    }
    let each = (lengths[1].saturating_sub(lengths[0])).max(1) as f64 / (LONG - SHORT) as f64;
    let words = SHORT as f64 + (tokens as f64 - lengths[0] as f64) / each;
    Ok(user(text_of(0, words.round().max(1.0) as usize)))
}

/// What two others would have drafted, 20 tokens in all: single letters, which are a token each in
/// about every vocabulary. The page's bench has the same.
pub fn others() -> Vec<Candidate> {
    let letter = |place: usize| char::from(b'a' + (place * 7 % 26) as u8);
    let text = |other: usize| {
        let places = other * EACH..(other + 1) * EACH;
        places.flat_map(|place| [' ', letter(place)]).collect()
    };
    (0..OTHERS)
        .map(|other| Candidate {
            text: text(other),
            ended: false,
        })
        .collect()
}

fn user(content: String) -> Vec<Message> {
    vec![Message {
        role: "user".to_owned(),
        content,
    }]
}

/// `count` short words from number `from` on: the page's bench writes the same.
fn text_of(from: usize, count: usize) -> String {
    let letter = |place: usize| char::from(b'a' + (place % 26) as u8);
    (from..from + count)
        .flat_map(|word| [' ', letter(word * 7), letter(word * 7 / 26)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_a_word_for_every_token() {
        assert_eq!(text_of(0, 5), " aa ha oa va cb");
        assert_eq!(text_of(3, 2), " va cb");
    }

    #[test]
    fn candidates_of_others_are_twenty_different_letters() {
        let texts: Vec<String> = others().into_iter().map(|each| each.text).collect();
        assert_eq!(texts, [" a h o v c j q x e l", " s z g n u b i p w d"]);
    }
}
