//! Keys of mixtures of experts.

use crate::config::{Bias, Experts, Gating};
use crate::error::ModelError;
use crate::keys::{Key, Keys};

const COUNT: Key = Key("expert_count", "num_experts");
const USED: Key = Key("expert_used_count", "num_experts_per_tok");
const GATING: Key = Key("expert_gating_func", "");

/// Most experts of a layer: the kernel that groups tokens by expert has room for no more.
const MOST_EXPERTS: usize = 512;

/// Reads the settings of the experts, whose width is `width`. `gating` and `normalised` are the
/// family's, for models that do not name them. The result has no bias on the choice.
///
/// # Errors
/// [`ModelError::Key`] for numbers that are missing, zero, beyond any known model or inconsistent,
/// and for scores of another kind.
pub fn read(
    keys: &Keys<'_>,
    width: usize,
    gating: Gating,
    normalised: bool,
) -> Result<Experts, ModelError> {
    let (count, used) = (keys.size(COUNT)?, keys.size(USED)?);
    if count > MOST_EXPERTS {
        return Err(keys.wrong(COUNT, "is beyond any known model"));
    }
    if used > count {
        return Err(keys.wrong(USED, "is more experts than there are"));
    }
    // As llama.cpp numbers them; 0 says nothing.
    let gating = match keys.size_above_zero(GATING)? {
        None => gating,
        Some(1) => Gating::Softmax,
        Some(2) => Gating::Sigmoid,
        Some(_) => return Err(keys.wrong(GATING, "is a scoring that is not supported")),
    };
    let norm = Key("expert_weights_norm", "norm_topk_prob");
    let scale = Key("expert_weights_scale", "routed_scaling_factor");
    Ok(Experts {
        count,
        used,
        width,
        gating,
        choice_bias: Bias::Never,
        normalised: keys.flag(norm)?.unwrap_or(normalised),
        scale: keys.float_or(scale, 1.0)?,
    })
}
