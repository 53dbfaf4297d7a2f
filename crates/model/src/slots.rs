//! Where hidden states are kept from one pass to the next: the logits after a token can be had as
//! long as its state has its slot.

use crate::error::ModelError;
use crate::pass::IN_LINE_ROWS;

/// Tokens that one draft can hold states of.
pub const MOST_DRAFTED: usize = 64;

/// The last token of the prefix.
pub const PREFIX: usize = 0;

/// The tokens of a draft.
pub const DRAFT: usize = 1;

/// The tokens of a prompt's chunk, or of candidates in line.
pub const PASS: usize = DRAFT + MOST_DRAFTED;

/// All of them.
pub const SLOTS: usize = PASS + IN_LINE_ROWS;

/// Refuses more tokens than there are slots for from `slot` on: no kernel writes or reads beyond
/// the last one, and none says so.
///
/// # Errors
/// [`ModelError::InLine`].
pub(crate) fn check_slots(slot: usize, tokens: usize) -> Result<(), ModelError> {
    if slot.saturating_add(tokens) > SLOTS {
        return Err(ModelError::InLine {
            tokens,
            limit: SLOTS.saturating_sub(slot),
        });
    }
    Ok(())
}
