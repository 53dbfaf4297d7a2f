//! Where hidden states are kept from one pass to the next: the logits after a token can be had as
//! long as its state has its slot.

use crate::pass::IN_LINE_ROWS;

/// Tokens that one draft can hold states of.
pub(crate) const MOST_DRAFTED: usize = 64;

/// The last token of the prefix.
pub(crate) const PREFIX: usize = 0;

/// The tokens of a draft.
pub(crate) const DRAFT: usize = 1;

/// The tokens of a prompt's chunk, or of candidates in line.
pub(crate) const PASS: usize = DRAFT + MOST_DRAFTED;

/// All of them.
pub(crate) const SLOTS: usize = PASS + IN_LINE_ROWS;
