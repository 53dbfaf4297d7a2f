//! Slots of hidden states, which are kept from one pass to the next. The logits after a token can
//! be computed while its state is in its slot.

use crate::error::ModelError;
use crate::pass::IN_LINE_ROWS;

/// Most tokens of one draft whose states are kept.
pub const MOST_DRAFTED: usize = 64;

/// Slot of the prefix's last token.
pub const PREFIX: usize = 0;

/// First slot of a draft's tokens.
pub const DRAFT: usize = 1;

/// First slot of the tokens of a prompt's chunk, or of candidates in line.
pub const PASS: usize = DRAFT + MOST_DRAFTED;

/// Number of slots.
pub const SLOTS: usize = PASS + IN_LINE_ROWS;

/// Refuses more tokens than there are slots for from `slot` on: kernels skip slots beyond the last
/// one without an error.
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
