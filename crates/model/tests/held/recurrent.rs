//! Recurrent states, which cannot be cut: whichever way a round or a prompt goes on, what comes out
//! is that of a text that was run in one piece, and no more is run again than the states there are
//! ask for.

use conclave_model::states::OPENING;
use conclave_model::{ModelError, Sampler, Sampling, Score, Session};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::session::{relative_error, session, session_of, with_context};
use crate::{backends, backends_at_length};

/// Delta nets from a folder and from a GGUF file, whose value heads lie otherwise, and state
/// spaces.
const MODELS: [&str; 3] = ["qwen3_5-layers-hf", "qwen3_5-gguf", "granite4-h-groups-hf"];

fn ids(random: &mut ChaCha8Rng, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.next_u32() % 59).collect()
}

fn next(session: &mut Session) -> Vec<f32> {
    pollster::block_on(session.next_logits()).unwrap()
}

fn prefill(session: &mut Session, tokens: &[u32]) -> usize {
    pollster::block_on(session.prefill(tokens)).unwrap()
}

fn verify(session: &mut Session, candidates: &[Vec<u32>]) -> Vec<Score> {
    pollster::block_on(session.verify(candidates, true)).unwrap()
}

/// The session's logits are those of its prefix run as a prompt of another session.
fn assert_as_fresh(session: &mut Session, fresh: &mut Session, what: &str) {
    let text = session.prefix().to_vec();
    fresh.release();
    prefill(fresh, &text);
    let error = relative_error(&next(session), &next(fresh));
    assert!(error < 1e-4, "{what}: {error:e}");
}

/// Scores are those that are wanted, to a ten-thousandth of the `largest` logit: on the CPU
/// quantised weights round their input, and one number that falls on the other side of a step is
/// 1e-5 of it.
fn assert_scores(found: &[Score], wanted: &[Score], largest: f64, what: &str) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        for (found, wanted) in [
            (found.mean_logit, wanted.mean_logit),
            (found.mean_logprob.unwrap(), wanted.mean_logprob.unwrap()),
        ] {
            let far = (found - wanted).abs();
            assert!(far < 1e-4 * largest, "{what}: {far} of {largest}");
        }
    }
}

/// The scores of candidates by a plain prompt each, and the largest logit there was.
fn as_prompts(fresh: &mut Session, prefix: &[u32], candidates: &[Vec<u32>]) -> (Vec<Score>, f64) {
    let mut largest = 0.0_f64;
    let score = |candidate: &Vec<u32>| {
        let whole = [prefix, candidate].concat();
        let logits = pollster::block_on(fresh.all_logits(&whole)).unwrap();
        let all = logits.iter().flatten().map(|&x| f64::from(x).abs());
        largest = all.fold(largest, f64::max);
        let rows = logits[prefix.len() - 1..].iter().zip(candidate);
        let judged = rows.map(|(row, &id)| {
            let logit = f64::from(row[id as usize]);
            let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
            (logit, logit - sum.ln())
        });
        let (logits, logprobs): (Vec<f64>, Vec<f64>) = judged.unzip();
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        Score {
            mean_logit: mean(&logits),
            mean_logprob: Some(mean(&logprobs)),
            harmonic: None,
            tokens: candidate.len(),
        }
    };
    let scores = candidates.iter().map(score).collect();
    (scores, largest)
}

/// Rounds of ragged candidates: in one pass, each alone and each as a prompt; then one of them is
/// kept, whole or in part.
#[test]
fn a_round_is_exact_whatever_is_kept_of_it() {
    let mut random = ChaCha8Rng::seed_from_u64(21);
    for (backend_name, backend) in backends_at_length() {
        for model in MODELS {
            let [mut one, mut fresh] = [(); 2].map(|()| session(model, backend.as_ref(), 256));
            let prompt = ids(&mut random, 43);
            assert_eq!(prefill(&mut one, &prompt), 43);
            for (round, whole) in [true, false, true].into_iter().enumerate() {
                let what = format!("round {round}, {model} on {backend_name}");
                let lengths = [7, 1, 12, 3, 7];
                let mut candidates: Vec<Vec<u32>> = lengths
                    .iter()
                    .map(|&count| ids(&mut random, count))
                    .collect();
                // The same again runs once.
                candidates[4] = candidates[0].clone();
                let before = one.counters().verify_tokens;
                let found = verify(&mut one, &candidates);
                assert_eq!(one.counters().verify_tokens - before, 23, "{what}");
                let prefix = one.prefix().to_vec();
                let (wanted, largest) = as_prompts(&mut fresh, &prefix, &candidates);
                assert_scores(&found, &wanted, largest, &what);
                for (candidate, found) in candidates.iter().zip(&found) {
                    let alone = verify(&mut one, std::slice::from_ref(candidate));
                    assert_scores(&alone, std::slice::from_ref(found), largest, &what);
                }
                verify(&mut one, &candidates);
                let before = one.counters().verify_tokens;
                let count = if whole { 12 } else { 5 };
                pollster::block_on(one.keep(2, count)).unwrap();
                // A part runs again, a whole candidate does not.
                let ran = one.counters().verify_tokens - before;
                assert_eq!(ran, if whole { 0 } else { 5 }, "{what}");
                let text = [&prefix, &candidates[2][..count]].concat();
                assert_eq!(one.prefix(), text, "{what}");
                assert_as_fresh(&mut one, &mut fresh, &what);
            }
        }
    }
}

/// A candidate that begins with all that the draft ran goes on from there; any other runs anew.
#[test]
fn a_drafted_candidate_runs_only_what_is_behind_the_draft() {
    let mut random = ChaCha8Rng::seed_from_u64(22);
    for (backend_name, backend) in backends_at_length() {
        for model in MODELS {
            let what = format!("{model} on {backend_name}");
            let [mut one, mut fresh] = [(); 2].map(|()| session(model, backend.as_ref(), 256));
            let mut sampler = Sampler::new(Sampling::default(), 4);
            prefill(&mut one, &ids(&mut random, 30));
            // Five of six drafted tokens have run. Columns: tokens to verify, tokens that run for
            // it, tokens kept, tokens that run for that.
            for (drafted, runs, kept, again) in [
                (6, 1, 6, 0),
                (5, 0, 5, 0),
                (6, 1, 5, 0),
                (6, 1, 4, 4),
                (3, 3, 3, 0),
                (8, 3, 8, 0),
            ] {
                let what = format!("{what}, {drafted} of the draft and {kept} kept");
                let draft = one.draft(6, &mut sampler, &[]);
                let mut own = pollster::block_on(draft).unwrap().tokens;
                own.extend(ids(&mut random, 2));
                own.truncate(drafted);
                let candidates = [ids(&mut random, 4), own];
                let prefix = one.prefix().to_vec();
                let (wanted, largest) = as_prompts(&mut fresh, &prefix, &candidates);
                // Twice: what the draft ran stays.
                for round in 0..2 {
                    let before = one.counters().verify_tokens;
                    let found = verify(&mut one, &candidates);
                    let ran = one.counters().verify_tokens - before;
                    assert_eq!(ran, 4 + runs, "{what}, {round}");
                    assert_scores(&found, &wanted, largest, &what);
                }
                let before = one.counters().verify_tokens;
                pollster::block_on(one.keep(1, kept)).unwrap();
                assert_eq!(one.counters().verify_tokens - before, again, "{what}");
                assert_as_fresh(&mut one, &mut fresh, &what);
            }
        }
    }
}

/// A text that goes on with its own draft, unverified.
#[test]
fn a_draft_goes_on_whole_or_runs_again() {
    let mut random = ChaCha8Rng::seed_from_u64(23);
    for (backend_name, backend) in backends() {
        let [mut one, mut fresh] = [(); 2].map(|()| session("qwen3_5-hf", backend.as_ref(), 256));
        prefill(&mut one, &ids(&mut random, 20));
        let mut sampler = Sampler::new(Sampling::default(), 5);
        // More drafted than there are hidden states of, too.
        for (drafted, taken, runs) in [(9, 9, 1), (9, 8, 0), (9, 4, 4), (70, 70, 70)] {
            let what = format!("{taken} of {drafted} on {backend_name}");
            let draft = one.draft(drafted, &mut sampler, &[]);
            let tokens = pollster::block_on(draft).unwrap().tokens;
            let before = one.counters().draft_tokens;
            pollster::block_on(one.go_on(&tokens[..taken])).unwrap();
            assert_eq!(one.counters().draft_tokens - before, runs, "{what}");
            assert_as_fresh(&mut one, &mut fresh, &what);
        }
    }
}

/// Prompts that share a part of the prefix go on from a checkpoint.
#[test]
fn a_prompt_goes_on_from_the_nearest_checkpoint() {
    let mut random = ChaCha8Rng::seed_from_u64(24);
    for (backend_name, backend) in backends() {
        let [mut one, mut fresh] =
            [(); 2].map(|()| session("qwen3_5-layers-hf", backend.as_ref(), 512));
        let mut run = |one: &mut Session, prompt: &[u32], wanted: usize, what: &str| {
            let what = format!("{what} on {backend_name}");
            assert_eq!(prefill(one, prompt), wanted, "{what}");
            assert_as_fresh(one, &mut fresh, &what);
        };
        let first = ids(&mut random, 60);
        run(&mut one, &first, 60, "a first prompt");
        run(&mut one, &first, 0, "the same");
        let answered = |one: &mut Session, random: &mut ChaCha8Rng| {
            let answer = [ids(random, 11)];
            verify(one, &answer);
            pollster::block_on(one.keep(0, 11)).unwrap();
            one.prefix().to_vec()
        };
        answered(&mut one, &mut random);
        run(&mut one, &first, OPENING, "an answer anew");
        // A template writes the opening of an answer otherwise once it is answered.
        let whole = answered(&mut one, &mut random);
        let mut second = whole.clone();
        second[57] = (second[57] + 1) % 59;
        second.extend(ids(&mut random, 40));
        run(
            &mut one,
            &second,
            second.len() - 60 + OPENING,
            "a second question",
        );
        let whole = answered(&mut one, &mut random);
        let longer = [whole.as_slice(), &ids(&mut random, 20)].concat();
        run(&mut one, &longer, 20, "what only goes on");
        let other = [whole.as_slice(), &ids(&mut random, 15)].concat();
        run(&mut one, &other, 15, "another question in its place");
        // A new conversation that begins alike finds no checkpoint, and leaves one where they part.
        let alike = |random: &mut ChaCha8Rng| [&first[..30], &ids(random, 45)].concat();
        let prompt = alike(&mut random);
        run(&mut one, &prompt, 75, "another conversation");
        answered(&mut one, &mut random);
        let prompt = alike(&mut random);
        run(&mut one, &prompt, 45, "one more of its kind");
        run(&mut one, &first[..20], 20, "a shorter one");
        run(&mut one, &first[..3], 3, "one shorter than an opening");
        one.release();
        run(&mut one, &first, 60, "all anew");
    }
}

#[test]
fn a_stopped_prompt_goes_on_from_where_it_was() {
    let mut random = ChaCha8Rng::seed_from_u64(25);
    for (backend_name, backend) in backends() {
        let [mut one, mut fresh] = [(); 2].map(|()| session("qwen3_5-hf", backend.as_ref(), 512));
        let prompt = ids(&mut random, 150);
        let mut ran = 0;
        let once = async |done, _| {
            ran = done;
            false
        };
        let stopped = pollster::block_on(one.prefill_while(&prompt, once)).unwrap();
        assert!(
            stopped.stopped && stopped.run == ran && ran < 150,
            "{backend_name}"
        );
        assert_eq!(one.prefix(), &prompt[..ran], "{backend_name}");
        let logits = pollster::block_on(one.next_logits());
        assert!(
            matches!(logits, Err(ModelError::Order(_))),
            "{backend_name}"
        );
        assert_eq!(prefill(&mut one, &prompt), 150 - ran, "{backend_name}");
        assert_as_fresh(&mut one, &mut fresh, backend_name);
    }
}

/// Candidates that take more than one portion, one of them longer than any.
#[test]
fn more_tokens_in_line_than_a_pass_has_slots_for_are_exact() {
    let mut random = ChaCha8Rng::seed_from_u64(26);
    let model = with_context("qwen3_5-layers-hf", 1200);
    for (backend_name, backend) in backends_at_length() {
        let [mut one, mut fresh] =
            [(); 2].map(|()| session_of(model.clone(), backend.as_ref(), 1200));
        let prompt = ids(&mut random, 20);
        let candidates = [300, 530, 40].map(|count| ids(&mut random, count)).to_vec();
        prefill(&mut one, &prompt);
        let found = verify(&mut one, &candidates);
        let (wanted, largest) = as_prompts(&mut fresh, &prompt, &candidates);
        assert_scores(&found, &wanted, largest, backend_name);
        pollster::block_on(one.keep(1, 530)).unwrap();
        assert_as_fresh(&mut one, &mut fresh, backend_name);
    }
}
