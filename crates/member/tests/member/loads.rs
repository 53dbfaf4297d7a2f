//! Tokenizers that list more tokens than the model has rows.

use crate::speaker::Speaker;
use conclave_member::{MemberError, Message};
use conclave_model::Sampling;

fn speaker(beyond: usize, letters_beyond: usize) -> Speaker<'static> {
    Speaker {
        words: &["<|end|>", "<|user|>", "<|answer|>", "Yes", "."],
        says: &[&["<|answer|>", "Yes", ".", "<|end|>"]],
        template: Some(
            "{% for m in messages %}<|user|>{{ m.content }}<|end|>{% endfor %}<|answer|>",
        ),
        context: 4096,
        broken: None,
        beyond,
        letters_beyond,
    }
}

/// Gemma 3's lists 262,145 for 262,144 rows: one belongs to its variant with vision.
#[test]
fn control_tokens_that_the_model_lacks_are_given_up() {
    for beyond in [0, 1, 7] {
        let mut member = speaker(beyond, 0).load(128).unwrap();
        // Spelled, it is text.
        let question = [Message::new("user", "Is it <|beyond0|>?")];
        pollster::block_on(member.begin(&question, Sampling::greedy(), 0)).unwrap();
        let draft = pollster::block_on(member.draft(4)).unwrap();
        assert_eq!((draft.text.as_str(), draft.ended), ("Yes.", true));
    }
}

#[test]
fn a_model_without_rows_for_text_is_refused() {
    for (beyond, letters) in [(0, 1), (1, 2)] {
        let error = speaker(beyond, letters).load(128).err();
        assert!(
            matches!(error, Some(MemberError::Vocabulary { .. })),
            "{error:?}"
        );
    }
}
