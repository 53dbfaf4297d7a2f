//! Conversation of a task: one question, or turns that end with one.

use serde::{Deserialize, Serialize};

/// Turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// `user`, `assistant`, or `system` for the first.
    pub role: String,
    /// Text of the turn.
    pub content: String,
}

impl Message {
    /// Creates a user's turn.
    pub fn user(content: impl Into<String>) -> Self {
        Self {
            role: "user".to_owned(),
            content: content.into(),
        }
    }
}

/// Checks that chat templates can render `messages`: an optional system prompt, then alternating
/// turns of user and assistant, beginning and ending with the user's, none of them blank.
///
/// # Errors
/// The broken rule, phrased to follow the field name `messages`.
pub fn check(messages: &[Message]) -> Result<(), &'static str> {
    let system = messages.first().is_some_and(|first| first.role == "system");
    let turns = &messages[usize::from(system)..];
    let alternates = turns
        .iter()
        .zip(["user", "assistant"].into_iter().cycle())
        .all(|(turn, role)| turn.role == role);
    if messages.iter().any(|turn| turn.content.trim().is_empty()) {
        return Err("has a turn without words; give each some \"content\"");
    }
    if !alternates {
        return Err(
            "must alternate \"user\" and \"assistant\", from the user's first turn; a \
             \"system\" one may stand before",
        );
    }
    if turns.len().is_multiple_of(2) {
        return Err("must end with a turn of the \"user\", which is what is answered");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(roles: &[&str]) -> Vec<Message> {
        let message = |role: &&str| Message {
            role: (*role).to_owned(),
            content: "words".to_owned(),
        };
        roles.iter().map(message).collect()
    }

    #[test]
    fn turns_alternate_and_end_with_the_users() {
        let (s, u, a) = ("system", "user", "assistant");
        for fine in [&[u][..], &[s, u], &[u, a, u], &[s, u, a, u, a, u]] {
            assert_eq!(check(&messages(fine)), Ok(()), "{fine:?}");
        }
        for (wrong, says) in [
            (&[][..], "end with"),
            (&[s], "end with"),
            (&[u, a], "end with"),
            (&[u, u], "alternate"),
            (&[a, u, a], "alternate"),
            (&[u, s, u], "alternate"),
            (&["human"], "alternate"),
        ] {
            let said = check(&messages(wrong)).unwrap_err();
            assert!(said.contains(says), "{wrong:?}: {said}");
        }
        let silent = [Message::user(" ")];
        assert!(check(&silent).unwrap_err().contains("without words"));
    }
}
