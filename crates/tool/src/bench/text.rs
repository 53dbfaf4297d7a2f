//! Texts of the bench: conversations of a given length, and candidates that no member drafted.

use conclave_ensemble::Candidate;
use conclave_member::{Member, Message};
use conclave_model::Sampling;

use crate::failure::Failure;

/// Candidates of two others, of ten tokens each in the bundled vocabularies and in the bench's own.
/// White space before an answer is left to each member. The page's bench uses the same.
const OTHERS: [&str; 2] = ["a b c d e f g h i j", "j i h g f e d c b a"];

/// Begins another conversation, so that the next one is run in full: earlier ones are not kept.
pub async fn forget(member: &mut Member, sampling: Sampling) -> Result<(), Failure> {
    member.set_room_for_kept(0);
    member.begin(&user("~".to_owned()), sampling, 0).await?;
    Ok(())
}

/// Conversation of about `tokens` tokens for this member; the tokens per word are found by trial.
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

/// Drafts that two others could have made, 20 tokens in all: single letters, one token each in
/// nearly every vocabulary.
pub fn others() -> Vec<Candidate> {
    let candidate = |text: &str| Candidate {
        text: text.to_owned(),
        ended: false,
    };
    OTHERS.into_iter().map(candidate).collect()
}

fn user(content: String) -> Vec<Message> {
    vec![Message::new("user", content)]
}

/// `count` short words from number `from` on, as in the page's bench.
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
}
