//! A prompt runs in steps and can be stopped between them: nothing that ran is lost or run twice,
//! and the result is as if it had not been stopped.

use conclave_model::{ModelError, Sampler, Sampling, Session};

use crate::backends;
use crate::session::session;

/// More than a chunk of any backend; ids are in the vocabulary of every fixture.
fn prompt() -> Vec<u32> {
    (0..300).map(|index| index * 7 % 59).collect()
}

/// Runs the prompt until `steps` chunks have run; returns the progress after each.
fn prefill(session: &mut Session, tokens: &[u32], steps: usize) -> (Vec<(usize, usize)>, bool) {
    let mut progress = Vec::new();
    let go_on = async |done, total| {
        progress.push((done, total));
        progress.len() < steps
    };
    let prefilled = pollster::block_on(session.prefill_while(tokens, go_on)).unwrap();
    (progress, prefilled.stopped)
}

#[test]
fn a_stopped_prompt_goes_on_where_it_was() {
    let prompt = prompt();
    for (backend_name, backend) in backends() {
        for model in ["llama-gguf", "gemma2-gguf", "phi4-mini-hf"] {
            let what = format!("{model} on {backend_name}");
            let mut undisturbed = session(model, backend.as_ref(), 512);
            let (steps, stopped) = prefill(&mut undisturbed, &prompt, usize::MAX);
            assert!(!stopped && steps.len() > 1, "{what}: {steps:?}");
            assert!(steps.is_sorted() && steps.iter().all(|step| step.1 == 300));
            assert_eq!(steps.last(), Some(&(300, 300)), "{what}");

            let mut stopped = session(model, backend.as_ref(), 512);
            let (progress, was) = prefill(&mut stopped, &prompt, 1);
            assert!(was, "{what}");
            assert_eq!(progress, steps[..1], "{what}");
            assert_eq!(stopped.prefix(), &prompt[..progress[0].0], "{what}");
            assert_eq!(stopped.counters().prefill_tokens, progress[0].0, "{what}");
            let logits = pollster::block_on(stopped.next_logits());
            assert!(matches!(logits, Err(ModelError::Order(_))), "{what}");

            let rest = pollster::block_on(stopped.prefill(&prompt)).unwrap();
            assert_eq!(rest, 300 - progress[0].0, "{what}");
            assert_eq!(
                pollster::block_on(stopped.next_logits()).unwrap(),
                pollster::block_on(undisturbed.next_logits()).unwrap(),
                "{what}"
            );
            let [found, wanted] = [&mut stopped, &mut undisturbed].map(|session| {
                let mut sampler = Sampler::new(Sampling::default(), 3);
                pollster::block_on(session.draft(10, &mut sampler, &[])).unwrap()
            });
            assert_eq!(found, wanted, "{what}");
        }
    }
}

/// A stop after the last step comes too late: the prompt is whole.
#[test]
fn a_stop_at_the_end_stops_nothing() {
    for (_, backend) in backends() {
        let mut session = session("llama-gguf", backend.as_ref(), 64);
        let (progress, stopped) = prefill(&mut session, &[1, 2, 3], 1);
        assert_eq!((progress, stopped), (vec![(3, 3)], false));
        assert!(pollster::block_on(session.next_logits()).is_ok());
    }
}
