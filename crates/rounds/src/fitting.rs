//! Conversations that have outgrown a member's context.

use std::ops::Range;

use conclave_member::Message;

use crate::taking_part::TakePart;

/// Part of each context that stays free for an answer without a smaller limit.
const FREE: usize = 4;

/// The turns to leave out (indices into `messages`) so that the rest fits every member, with room
/// for an answer of `most` tokens or a quarter of the context, whichever is less: as many of the
/// oldest questions with their answers as needed, never the system message or the last question.
/// If even the last question does not fit, all before it are left out, and
/// [`answer`](crate::answer()) reports the error. A member whose template refuses the conversation
/// leaves the answer, and has no say.
pub async fn leave_out<M: TakePart>(
    members: &[M],
    messages: &[Message],
    most: usize,
) -> Range<usize> {
    let system = messages.iter().take_while(|one| one.role == "system");
    let first = system.count();
    let mut end = first;
    loop {
        let kept: Vec<Message> = [&messages[..first], &messages[end..]].concat();
        let after = messages.iter().enumerate().skip(end + 1);
        let next = after
            .filter(|(_, one)| one.role == "user")
            .map(|(at, _)| at);
        match next.min() {
            Some(next) if !fits(members, &kept, most).await => end = next,
            _ => return first..end,
        }
    }
}

/// Whether the messages and an answer fit every member.
async fn fits<M: TakePart>(members: &[M], messages: &[Message], most: usize) -> bool {
    for member in members {
        let fits = match member.measure(messages).await {
            Ok(tokens) => member
                .context()
                .is_none_or(|context| tokens + most.min(context / FREE) <= context),
            Err(error) => !error.context_full(),
        };
        if !fits {
            return false;
        }
    }
    true
}
