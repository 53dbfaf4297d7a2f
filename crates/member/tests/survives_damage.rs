//! Randomly damaged real models, from their header to an answer: the first executions of the long
//! run, `examples/fuzz_chain.rs`.

#[path = "../examples/fuzz_chain.rs"]
#[allow(dead_code, reason = "the long run counts and prints")]
mod fuzz;

use fuzz::readers;

#[test]
fn damaged_models_end_in_an_error_or_an_answer() {
    let models = fuzz::models();
    let mut answered = 0;
    for execution in 0..3_000 {
        let guard = readers::Announce(execution);
        let (_, files) = fuzz::damaged(&models, 2, execution);
        let outcomes = fuzz::chain(files);
        answered += usize::from(outcomes.iter().any(|outcome| outcome == "run accepted"));
        std::mem::forget(guard);
    }
    // If no damage were survived, little would be tested.
    assert!(answered > 100, "{answered}");
}

#[test]
fn models_without_damage_answer() {
    for (kind, files) in fuzz::models() {
        let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
        let outcomes = fuzz::chain(files);
        let wanted = if kind == "model" {
            "run accepted"
        } else {
            "text accepted"
        };
        assert!(
            outcomes.iter().any(|outcome| outcome == wanted),
            "{names:?}: {outcomes:?}"
        );
    }
}
