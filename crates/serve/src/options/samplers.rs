//! `samplers`, llama.cpp's list of those that apply, and their order.

use serde_json::Value;

/// A member's samplers in their order, with the letters that llama.cpp's page writes.
const OURS: [(&str, char); 4] = [
    ("top_k", 'k'),
    ("top_p", 'p'),
    (MIN_P, 'm'),
    ("temperature", 't'),
];
const MIN_P: &str = "min_p";

/// Letters of all samplers of llama.cpp. Those of others than ours are off unless an option of their
/// own, which is refused by its name, turns them on.
const LETTERS: &str = "edkypmxtsa";

/// Returns whether `samplers` asks for a member's, in its order. Only `min_p` may be absent.
pub(super) fn are_ours(samplers: &Value) -> bool {
    let Some(listed) = listed(samplers) else {
        return false;
    };
    let all = OURS.map(|(name, _)| name);
    let needed = all.into_iter().filter(|&name| name != MIN_P);
    listed == all || needed.eq(listed)
}

/// Returns whether `samplers` turns `min_p` off: it lists others only.
pub(super) fn leave_out_min_p(samplers: &Value) -> bool {
    listed(samplers).is_some_and(|listed| !listed.is_empty() && !listed.contains(&MIN_P))
}

/// Returns the member's samplers among those in `samplers`, names or letters.
fn listed(samplers: &Value) -> Option<Vec<&'static str>> {
    let named = |named: &Value| OURS.iter().find(|(name, _)| named == name);
    let written = |letter: char| OURS.iter().find(|(_, ours)| letter == *ours);
    let ours: Vec<_> = match samplers {
        Value::Array(names) => names.iter().filter_map(named).collect(),
        Value::String(letters) if letters.chars().all(|one| LETTERS.contains(one)) => {
            letters.chars().filter_map(written).collect()
        }
        _ => return None,
    };
    Some(ours.into_iter().map(|(name, _)| *name).collect())
}
