//! Unsupported options, and the values with which they change nothing.

use conclave_model::SAMPLING_OPTIONS;
use serde_json::{Map, Value, json};

use super::samplers;

/// Options without effect on an answer: billing, caching, priority, extra output, and parameters of
/// disabled samplers.
const HINTS: &str = "cache_prompt cache_salt chat_id client_metadata dry_allowed_length dry_base \
    dry_penalty_last_n dry_sequence_breakers dynatemp_exponent guided_decoding_backend id_slot \
    include_reasoning keep_alive metadata mirostat_eta mirostat_tau n_keep num_ctx \
    parallel_tool_calls prediction penalty_last_n priority prompt_cache_key \
    prompt_cache_retention provider reasoning reasoning_control reasoning_effort reasoning_format \
    repeat_last_n repetition_penalty_range request_id safety_identifier separate_reasoning \
    service_tier session_id slot_id store stream_reasoning timings_per_token ttl usage verbosity \
    xtc_threshold";

/// Unsupported options by the number that disables them; `false`, `null` and empty values do so as
/// well.
const OFF_AT_0: &str = "audio backend_sampling continuous_usage_stats deferred documents \
    dry_multiplier dynatemp_range early_stopping echo epsilon_cutoff eta_cutoff frequency_penalty \
    grammar guided_choice guided_grammar guided_json guided_regex ignore_eos \
    include_stop_str_in_output json_schema logit_bias logprobs min_tokens mirostat \
    mirostat_mode n_cache_reuse n_discard n_indent n_probs negative_prompt no_repeat_ngram_size \
    penalty_alpha plugins post_sampling_probs presence_penalty prompt_logprobs raw \
    reasoning_budget return_token_ids return_tokens return_tokens_as_token_ids safe_mode \
    safe_prompt samplers smoothing_factor structured_outputs suffix t_max_predict_ms \
    thinking_budget thinking_budget_tokens thinking_forced_open top_a top_logprobs \
    use_beam_search web_search_options xtc_probability";
const OFF_AT_1: &str = "best_of encoder_repetition_penalty guidance_scale length_penalty \
    repeat_penalty repetition_penalty tfs tfs_z typ_p typical typical_p";
/// Options that -1 disables or leaves unlimited.
const OFF_AT_MINUS_1: &str = "adaptive_target reasoning_budget t_max_predict_ms thinking_budget \
    thinking_budget_tokens top_n_sigma";

/// Options that are always true.
const ON: &str = "add_generation_prompt add_special_tokens detokenize do_sample parse_tool_calls \
    skip_special_tokens spaces_between_special_tokens";

/// Options of an answer, beside those above, that a rendered question does not have.
const OF_ANSWERS: &str = "max_completion_tokens max_tokens n n_predict response_format \
    return_progress seed stop stream stream_options user";

/// Returns whether an option changes only answers, so that none of its values changes how their
/// question is rendered.
pub(crate) fn is_of_answers(name: &str) -> bool {
    let all = [OF_ANSWERS, OFF_AT_0, OFF_AT_1, OFF_AT_MINUS_1, ON].into_iter();
    let changes_the_question = ["add_generation_prompt", "documents"].contains(&name);
    let mut all = all.flat_map(str::split_whitespace);
    let samples = SAMPLING_OPTIONS.iter().any(|option| option.name == name);
    samples || !changes_the_question && all.any(|one| one == name)
}

/// Returns whether an option has no effect in a request with `all` these options.
pub(crate) fn is_idle(name: &str, value: &Value, all: &Map<String, Value>) -> bool {
    // A schema without conditions is still a schema.
    let is_schema = name.ends_with("schema") || name == "guided_json";
    if is_schema && value.is_object() {
        return false;
    }
    let never = |name: &str| all.get(name).is_some_and(|choice| choice == "none");
    is_empty(value)
        || match name {
            // No tool may be called.
            "tools" | "functions" => never("tool_choice") || never("function_call"),
            "tool_choice" | "function_call" => value == "none" || value == "auto",
            "modalities" => *value == json!(["text"]),
            "response_format" => *value == json!({ "type": "text" }),
            _ => asks_for_nothing(name, value),
        }
}

/// Returns whether a value equals an absent option.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether option `name` has no effect with this value.
fn asks_for_nothing(name: &str, value: &Value) -> bool {
    let among = |names: &str| names.split_whitespace().any(|one| one == name);
    let number = value.as_f64();
    among(HINTS)
        || *value == true && among(ON)
        || (*value == false || number == Some(0.0)) && among(OFF_AT_0)
        || (*value == false || number == Some(1.0)) && among(OFF_AT_1)
        || number == Some(-1.0) && among(OFF_AT_MINUS_1)
        || name == "samplers" && samplers::are_ours(value)
        // All biases are zero.
        || name == "logit_bias"
            && value
                .as_object()
                .is_some_and(|biases| biases.values().all(|bias| bias.as_f64() == Some(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_not_idle(body: &Value) -> Option<&str> {
        let all = body.as_object().expect("it is an object");
        let refused = all.iter().find(|(name, value)| !is_idle(name, value, all));
        refused.map(|(name, _)| name.as_str())
    }

    #[test]
    fn what_nobody_knows_is_refused_unless_it_asks_for_nothing() {
        let nothing = json!({
            "tools": null, "frequency_penalty": 0.0, "presence_penalty": 0, "logit_bias": {},
            "logprobs": false, "parallel_tool_calls": true, "store": false, "suffix": "",
            "response_format": { "type": "text" }, "modalities": ["text"],
            "metadata": { "page": "1" }, "service_tier": "auto", "prompt_cache_key": "k",
            "safety_identifier": "me",
        });
        assert_eq!(first_not_idle(&nothing), None);
        for body in [
            json!({ "tools": [], "functions": [], "tool_choice": "auto" }),
            json!({ "tools": [{ "type": "function" }], "tool_choice": "none" }),
            json!({ "repetition_penalty": 1.0, "repeat_penalty": 1, "typical_p": 1 }),
            json!({ "cache_prompt": true, "id_slot": -1, "samplers": [], "n_probs": 0 }),
            json!({
                "reasoning_effort": "low", "verbosity": "low", "keep_alive": "5m", "store": true,
            }),
            json!({
                "best_of": 1, "top_logprobs": 0, "skip_special_tokens": true, "ignore_eos": false,
            }),
            json!({ "made_up": "", "more": null, "others": [] }),
            json!({ "client_metadata": { "a": "b" }, "typ_p": 1, "backend_sampling": false }),
            json!({ "top_n_sigma": -1, "adaptive_target": -1.0, "n_cache_reuse": 0, "n_indent": 0,
                "n_discard": 0, "parse_tool_calls": true, "penalty_last_n": 64,
                "detokenize": true, "return_token_ids": false,
                "guided_decoding_backend": "xgrammar" }),
            json!({ "thinking_budget": 0, "thinking_budget_tokens": -1, "safe_prompt": false }),
            json!({ "samplers": ["penalties", "dry", "top_k", "typ_p", "top_p", "min_p", "xtc",
                "temperature"] }),
            json!({ "samplers": "edkypmxt" }),
            json!({ "samplers": "kpt" }),
            json!({ "safe_mode": false, "deferred": false, "thinking_forced_open": false }),
            json!({ "reasoning_budget": -1, "session_id": "s-1", "chat_id": 5 }),
            json!({ "reasoning_budget": 0 }),
        ] {
            assert_eq!(first_not_idle(&body), None, "{body}");
        }
        for (body, name) in [
            (
                json!({ "tools": [{ "type": "function" }], "tool_choice": "auto" }),
                "tools",
            ),
            (json!({ "tool_choice": "required" }), "tool_choice"),
            (json!({ "modalities": ["text", "audio"] }), "modalities"),
            (json!({ "frequency_penalty": 0.5 }), "frequency_penalty"),
            (json!({ "repetition_penalty": 1.1 }), "repetition_penalty"),
            (json!({ "ignore_eos": true }), "ignore_eos"),
            (
                json!({ "skip_special_tokens": false }),
                "skip_special_tokens",
            ),
            (json!({ "do_sample": false }), "do_sample"),
            (
                // Only for bare texts, which have no other form; a conversation's has been taken
                // before.
                json!({ "response_format": { "type": "json_object" } }),
                "response_format",
            ),
            (json!({ "logit_bias": { "5": 1 } }), "logit_bias"),
            (json!({ "json_schema": {} }), "json_schema"),
            (json!({ "best_of": 0 }), "best_of"),
            (
                json!({ "samplers": ["temperature", "top_p", "top_k"] }),
                "samplers",
            ),
            (json!({ "samplers": ["top_k", "temperature"] }), "samplers"),
            (json!({ "samplers": "tkp" }), "samplers"),
            (json!({ "samplers": "kmpt" }), "samplers"),
            (json!({ "samplers": "top_k" }), "samplers"),
            (json!({ "thinking_budget": 64 }), "thinking_budget"),
            (json!({ "reasoning_budget": 64 }), "reasoning_budget"),
            (json!({ "safe_mode": true }), "safe_mode"),
            (json!({ "deferred": true }), "deferred"),
            (
                json!({ "thinking_forced_open": true }),
                "thinking_forced_open",
            ),
            (json!({ "prompt_logprobs": 1 }), "prompt_logprobs"),
            (json!({ "best_of": 3 }), "best_of"),
            (json!({ "top_n_sigma": 1.0 }), "top_n_sigma"),
            (json!({ "return_token_ids": true }), "return_token_ids"),
            (json!({ "made_up": false }), "made_up"),
        ] {
            assert_eq!(first_not_idle(&body), Some(name), "{body}");
        }
    }
}
