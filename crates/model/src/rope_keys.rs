//! Keys of a checkpoint's rotary embedding: GGUF's `rope.*` keys and factor tensors, and
//! both spellings of `config.json` (`rope_theta` with `rope_scaling`, and `rope_parameters`).

use crate::error::ModelError;
use crate::keys::{Key, Keys};
use crate::rope::{Factors, Rope, Scaling};

/// `rope_theta` and the keys of scaling.
const BASE: Key = Key("rope.freq_base", "rope_theta");
const FACTOR: Key = Key("rope.scaling.factor", "factor");
const ORIGINAL: Key = Key(
    "rope.scaling.original_context_length",
    "original_max_position_embeddings",
);
const CONTEXT: Key = Key("context_length", "max_position_embeddings");

/// Names of the tensors that hold factors in GGUF.
const DIVISORS: &str = "rope_freqs.weight";
const SHORT: &str = "rope_factors_short.weight";
const LONG: &str = "rope_factors_long.weight";

/// Reads the rotary embedding of the layers without a window.
///
/// # Errors
/// [`ModelError::RopeScaling`] for a scaling that is not known, [`ModelError::Key`] for a value
/// out of range.
pub fn read(keys: &Keys<'_>, head_dim: usize) -> Result<Rope, ModelError> {
    if keys.is_gguf() {
        of_gguf(keys, head_dim)
    } else {
        // Both spellings name the same things; the newer one may have a set for each type of layer.
        let scaling = keys
            .within("rope_scaling")
            .or_else(|| keys.within("rope_parameters"));
        let scaling = scaling.map(|all| all.within("full_attention").unwrap_or(all));
        of_hugging_face(keys, scaling, BASE, head_dim)
    }
}

/// Reads the rotary embedding that `config.json` gives in `scaling` (`rope_scaling`, or
/// `rope_parameters` for a type of layer); `base` names the key that has its base where
/// `scaling` has none.
///
/// # Errors
/// As [`read`].
pub fn of_hugging_face(
    keys: &Keys<'_>,
    scaling: Option<Keys<'_>>,
    base: Key,
    head_dim: usize,
) -> Result<Rope, ModelError> {
    let inner = scaling.as_ref();
    let base = match inner.map(|inner| inner.optional_float(BASE)).transpose()? {
        Some(Some(base)) => base,
        _ => keys.float_or(base, 10_000.0)?,
    };
    let partial = Key("", "partial_rotary_factor");
    let part = match inner.map(|inner| inner.part(partial)).transpose()? {
        Some(Some(part)) => part,
        _ => keys.part(partial)?.unwrap_or(1.0),
    };
    let kind = match inner {
        Some(inner) => match inner.word(Key("", "rope_type"))? {
            Some(kind) => Some(kind),
            None => inner.word(Key("", "type"))?,
        },
        None => None,
    };
    let turning = (head_dim as f64 * part) as usize;
    let rotary_dim = match kind.as_deref() {
        // Its pairs are those of the whole head.
        Some("proportional") => head_dim,
        _ => turning,
    };
    check_rotary(keys, partial, rotary_dim, head_dim)?;
    let mut rope = Rope::plain(base, rotary_dim);
    let Some(inner) = inner else { return Ok(rope) };
    let given = inner.optional_float(Key("", "attention_factor"))?;
    match kind.as_deref().unwrap_or("default") {
        "default" => {}
        // The base grows with texts longer than the context, and there are none; Hunyuan's α makes
        // it larger whatever the length.
        "dynamic" => {
            if let Some(alpha) = inner.optional_float(Key("", "alpha"))? {
                let width = rotary_dim as f64;
                let stretch = f64::from(alpha).powf(width / (width - 2.0));
                rope = Rope::plain((f64::from(base) * stretch) as f32, rotary_dim);
            }
        }
        "proportional" => {
            rope.scaling = Scaling::Proportional {
                turning: turning / 2,
                factor: inner.float_or(FACTOR, 1.0)?,
            };
        }
        "linear" => {
            let factor = inner.float(FACTOR)?;
            rope.scaling = Scaling::Linear { factor };
        }
        "llama3" => {
            let (low, high) = (Key("", "low_freq_factor"), Key("", "high_freq_factor"));
            rope.scaling = Scaling::Llama3 {
                factor: inner.float(FACTOR)?,
                low: inner.float(low)?,
                high: inner.float(high)?,
                original: original(keys, inner)?,
            };
            if inner.float(low)? >= inner.float(high)? {
                return Err(inner.wrong(low, "is not below high_freq_factor"));
            }
        }
        // Phi-3 called it `su` and, by mistake, `yarn` before.
        "longrope" | "su" | "yarn" if inner.has("long_factor") => {
            let pairs = rotary_dim / 2;
            let original = original(keys, inner)?;
            let factor = match inner.optional_float(FACTOR)? {
                Some(factor) => factor,
                None => keys.size(CONTEXT)? as f32 / original as f32,
            };
            rope.scaling = Scaling::LongRope {
                short: Factors::Listed(inner.floats(Key("", "short_factor"), pairs)?),
                long: Factors::Listed(inner.floats(Key("", "long_factor"), pairs)?),
                original,
            };
            rope.attention_factor = given.unwrap_or_else(|| long_attention(factor, original));
        }
        "yarn" => {
            let original = original(keys, inner)?;
            let factor = match inner.optional_float(FACTOR)? {
                Some(factor) => factor,
                None => keys.size(CONTEXT)? as f32 / original as f32,
            };
            let all = |name| inner.optional_float(Key("", name));
            rope.attention_factor = match (given, all("mscale")?, all("mscale_all_dim")?) {
                (Some(given), ..) => given,
                (None, Some(part), Some(all)) => {
                    yarn_attention(factor, part) / yarn_attention(factor, all)
                }
                _ => yarn_attention(factor, 1.0),
            };
            rope.scaling = Scaling::Yarn {
                factor,
                fast: all("beta_fast")?.unwrap_or(32.0),
                slow: all("beta_slow")?.unwrap_or(1.0),
                original,
                whole: inner.flag(Key("", "truncate"))?.unwrap_or(true),
            };
        }
        kind => {
            return Err(ModelError::RopeScaling {
                kind: kind.to_owned(),
            });
        }
    }
    Ok(rope)
}

fn of_gguf(keys: &Keys<'_>, head_dim: usize) -> Result<Rope, ModelError> {
    let dimensions = Key("rope.dimension_count", "");
    let rotary_dim = keys.optional_size(dimensions)?.unwrap_or(head_dim);
    check_rotary(keys, dimensions, rotary_dim, head_dim)?;
    let mut rope = Rope::plain(keys.float_or(BASE, 10_000.0)?, rotary_dim);
    let named = keys.word(Key("rope.scaling.type", ""))?;
    let legacy = keys.optional_float(Key("rope.scale_linear", ""))?;
    let factor = keys.optional_float(FACTOR)?.or(legacy);
    let context = keys.size(CONTEXT)?;
    let original = keys.optional_size(ORIGINAL)?.unwrap_or(context);
    let attention = keys.optional_float(Key("rope.scaling.attn_factor", ""))?;
    match named.as_deref() {
        // Phi-3's files have the factors and do not name the scaling.
        None | Some("none" | "" | "longrope") if keys.has_tensor(LONG) => {
            rope.scaling = Scaling::LongRope {
                short: Factors::Tensor(SHORT.to_owned()),
                long: Factors::Tensor(LONG.to_owned()),
                original,
            };
            let factor = context as f32 / original as f32;
            rope.attention_factor = attention.unwrap_or_else(|| long_attention(factor, original));
        }
        Some("none" | "") | None if keys.has_tensor(DIVISORS) => {
            let by = Factors::Tensor(DIVISORS.to_owned());
            rope.scaling = Scaling::Divided { by };
        }
        Some("none" | "") => {}
        None | Some("linear") => {
            if let Some(factor) = factor {
                rope.scaling = Scaling::Linear { factor };
            }
        }
        Some("yarn") => {
            let factor = factor.ok_or_else(|| keys.wrong(FACTOR, "is missing"))?;
            let given = keys.optional_float(Key("rope.scaling.yarn_attn_factor", ""))?;
            let all = keys.optional_float(Key("rope.scaling.yarn_log_multiplier", ""))?;
            let given = given.unwrap_or_else(|| {
                let all = all.map_or(1.0, |all| yarn_attention(factor, all));
                yarn_attention(factor, 1.0) / all
            });
            rope.attention_factor = given * attention.unwrap_or(1.0);
            rope.scaling = Scaling::Yarn {
                factor,
                fast: keys.float_or(Key("rope.scaling.yarn_beta_fast", ""), 32.0)?,
                slow: keys.float_or(Key("rope.scaling.yarn_beta_slow", ""), 1.0)?,
                original,
                whole: true,
            };
        }
        Some(kind) => {
            return Err(ModelError::RopeScaling {
                kind: kind.to_owned(),
            });
        }
    }
    Ok(rope)
}

/// The context before scaling: the key beside the scaling, else the key inside of it, else the
/// model's context.
fn original(keys: &Keys<'_>, scaling: &Keys<'_>) -> Result<usize, ModelError> {
    match keys.optional_size(ORIGINAL)? {
        Some(original) => Ok(original),
        None => match scaling.optional_size(ORIGINAL)? {
            Some(original) => Ok(original),
            None => keys.size(CONTEXT),
        },
    }
}

/// Checks the number of dimensions of a head that rotate.
///
/// # Errors
/// [`ModelError::Key`] about `key` if the number is 0, odd, or above `head_dim`.
pub fn check_rotary(
    keys: &Keys<'_>,
    key: Key,
    rotary_dim: usize,
    head_dim: usize,
) -> Result<(), ModelError> {
    if rotary_dim == 0 || rotary_dim > head_dim || !rotary_dim.is_multiple_of(2) {
        let problem = format!("makes {rotary_dim} of {head_dim} dimensions rotate");
        return Err(keys.wrong(key, &problem));
    }
    Ok(())
}

/// LongRoPE's factor on cosines and sines.
fn long_attention(factor: f32, original: usize) -> f32 {
    if factor <= 1.0 {
        1.0
    } else {
        (1.0 + f64::from(factor).ln() / (original as f64).ln()).sqrt() as f32
    }
}

/// YaRN's factor on cosines and sines.
fn yarn_attention(factor: f32, scale: f32) -> f32 {
    if factor <= 1.0 {
        1.0
    } else {
        (0.1 * f64::from(scale) * f64::from(factor).ln() + 1.0) as f32
    }
}
