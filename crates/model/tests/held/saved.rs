//! A prefix that was given away and taken back is the prefix it was: bit for bit, whatever ran
//! between, in this session or another. And bytes that are none of this model's are refused.

use std::hash::{DefaultHasher, Hasher};

use conclave_model::{Backend, ModelError, Sampler, Sampling, Saved, Session};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::backends;
use crate::session::{session, session_of, with_context};

/// Exact rows and rounded ones, windows, shared keys and values, convolutions, experts, and both
/// kinds of recurrent states.
const MODELS: [&str; 10] = [
    "llama-gguf",
    "llama-bias-hf",
    "gemma3-gguf",
    "gemma4-gguf",
    "lfm2-gguf",
    "lfm2-hf",
    "lfm2_moe-gguf",
    "qwen3_5-gguf",
    "granite4-h-gguf",
    "granite4-h-groups-hf",
];

/// Those of them whose prefix can be cut at few places only.
fn is_recurrent(model: &str) -> bool {
    model.starts_with("qwen3_5") || model.starts_with("granite4-h")
}

fn ids(random: &mut ChaCha8Rng, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.next_u32() % 59).collect()
}

fn prefill(session: &mut Session, tokens: &[u32]) -> usize {
    pollster::block_on(session.prefill(tokens)).unwrap()
}

fn save(session: &mut Session, most: usize) -> Saved {
    let saved = pollster::block_on(session.save(most)).unwrap();
    saved.expect("there is a prefix to give away")
}

/// All that follows a prefix: logits, a draft, the scores of candidates of which one is kept.
fn continuation(session: &mut Session) -> (Vec<f32>, Vec<u32>, Vec<f64>, Vec<f32>) {
    let logits = pollster::block_on(session.next_logits()).unwrap();
    let mut sampler = Sampler::new(Sampling::default(), 6);
    let draft = pollster::block_on(session.draft(5, &mut sampler, &[])).unwrap();
    let candidates = [draft.tokens.clone(), vec![3, 1, 4, 1, 5, 9, 2]];
    let scores = pollster::block_on(session.verify(&candidates, true)).unwrap();
    let scores = scores.iter().map(|score| score.mean_logprob.unwrap());
    let scores = scores.collect();
    pollster::block_on(session.keep(1, 7)).unwrap();
    let after = pollster::block_on(session.next_logits()).unwrap();
    (logits, draft.tokens, scores, after)
}

/// Two conversations in turns on one session, and one of them on a session of its own.
#[test]
fn a_prefix_that_comes_back_is_what_it_was() {
    let mut random = ChaCha8Rng::seed_from_u64(31);
    for (backend_name, backend) in backends() {
        for model in MODELS {
            let what = format!("{model} on {backend_name}");
            let on = || session(model, backend.as_ref(), 256);
            let [mut one, mut alone, mut fresh] = [on(), on(), on()];
            let first = ids(&mut random, 83);
            for session in [&mut one, &mut alone] {
                prefill(session, &first);
                continuation(session);
            }
            let saved = save(&mut one, usize::MAX);
            assert_eq!(saved.tokens(), one.prefix(), "{what}");
            assert_eq!(Some(saved.bytes()), one.bytes_apart(90), "{what}");
            // Twice gives the same, and nothing has moved.
            assert_eq!(save(&mut one, usize::MAX), saved, "{what}");

            prefill(&mut one, &ids(&mut random, 140));
            continuation(&mut one);
            let bytes = saved.to_bytes();
            let read = Saved::from_bytes(&bytes).unwrap();
            assert_eq!(read, saved, "{what}");
            let longer = [alone.prefix(), &ids(&mut random, 20)].concat();
            assert_eq!(prefill(&mut alone, &longer), 20, "{what}");
            let wanted = continuation(&mut alone);
            for session in [&mut one, &mut fresh] {
                session.restore(&read).unwrap();
                assert_eq!(session.prefix(), saved.tokens(), "{what}");
                // There are no logits before a token has run.
                let none = pollster::block_on(session.next_logits());
                assert!(matches!(none, Err(ModelError::Order(_))), "{what}");
                assert_eq!(session.keeps(&longer), 90, "{what}");
                assert_eq!(saved.keeps(&longer), 90, "{what}");
                assert_eq!(prefill(session, &longer), 20, "{what}");
                assert_eq!(continuation(session), wanted, "{what}");
            }
        }
    }
}

/// A saved prefix goes as far as it was asked for, or to the last state before
/// that.
#[test]
fn a_part_of_a_prefix_can_be_given_away() {
    let mut random = ChaCha8Rng::seed_from_u64(32);
    for (backend_name, backend) in backends() {
        for model in MODELS {
            let what = format!("{model} on {backend_name}");
            let on = || session(model, backend.as_ref(), 256);
            let [mut one, mut other, mut alone] = [on(), on(), on()];
            let system = ids(&mut random, 70);
            let mut question = |first| {
                let rest = ids(&mut random, 39);
                [system.as_slice(), &[first], &rest].concat()
            };
            let [first, second] = [1, 2].map(&mut question);
            for session in [&mut one, &mut alone] {
                session.mark(70);
                prefill(session, &first);
                continuation(session);
            }
            let saved = save(&mut one, 70);
            assert_eq!(saved.tokens(), system, "{what}");
            let less = save(&mut one, 75);
            let wanted = if is_recurrent(model) { 70 } else { 75 };
            assert_eq!(less.tokens().len(), wanted, "{what}");
            // It knows nothing of what was asked after it.
            other.mark(70);
            prefill(&mut other, &second);
            assert_eq!(save(&mut other, 70), saved, "{what}");
            other.restore(&saved).unwrap();
            for session in [&mut other, &mut alone] {
                assert_eq!(prefill(session, &second), 40, "{what}");
            }
            assert_eq!(continuation(&mut other), continuation(&mut alone), "{what}");
            // Nothing is left of a part before the first state.
            let none = pollster::block_on(one.save(30)).unwrap();
            assert_eq!(none.is_none(), is_recurrent(model), "{what}");
            assert!(pollster::block_on(one.save(0)).unwrap().is_none(), "{what}");
            // A checkpoint of it serves as in the session that gave it away.
            let whole = save(&mut one, usize::MAX);
            other.restore(&whole).unwrap();
            assert_eq!(other.keeps(&first), whole.keeps(&first), "{what}");
            assert_eq!(other.keeps(&first), one.keeps(&first), "{what}");
            assert_eq!(prefill(&mut other, &first), prefill(&mut one, &first));
            let [found, wanted] = [&mut other, &mut one].map(continuation);
            assert_eq!(found, wanted, "{what}");
        }
    }
}

/// Rows of long frequencies come back with them, and serve no text that needs the short ones.
#[test]
fn rows_come_back_with_their_frequencies() {
    let mut random = ChaCha8Rng::seed_from_u64(33);
    for (backend_name, backend) in backends() {
        let on = || session("phi3-gguf", backend.as_ref(), 512);
        let [mut one, mut other] = [on(), on()];
        let switch = one.about().config.rope_switches_at().expect("it has two");
        let long = ids(&mut random, switch + 20);
        prefill(&mut one, &long);
        let saved = save(&mut one, usize::MAX);
        other.restore(&saved).unwrap();
        let longer = [long.as_slice(), &[1, 2, 3]].concat();
        for session in [&mut one, &mut other] {
            assert_eq!(prefill(session, &longer), 3, "{backend_name}");
        }
        assert_eq!(
            continuation(&mut one),
            continuation(&mut other),
            "{backend_name}"
        );
        other.restore(&save(&mut one, switch - 40)).unwrap();
        let short = &long[..switch - 30];
        assert_eq!(other.keeps(short), 0, "{backend_name}");
        for session in [&mut one, &mut other] {
            assert_eq!(prefill(session, short), switch - 30, "{backend_name}");
        }
        assert_eq!(
            continuation(&mut one),
            continuation(&mut other),
            "{backend_name}"
        );
    }
}

/// A session of the model whose prefix `saved` is not: restored, it would answer otherwise.
fn refuses(model: &str, backend: &dyn Backend, saved: &Saved) {
    let mut other = session(model, backend, 256);
    prefill(&mut other, &[1, 2, 3, 4]);
    let refused = other.restore(saved);
    assert!(matches!(refused, Err(ModelError::Saved(_))), "{model}");
    // What it held stays.
    assert_eq!(prefill(&mut other, &[1, 2, 3, 4, 5]), 1, "{model}");
}

#[test]
fn another_model_s_prefix_is_refused() {
    let [(_, cpu), (_, gpu)] = backends();
    for model in ["llama-bias-hf", "qwen3_5-layers-hf", "lfm2-hf"] {
        let mut one = session(model, cpu.as_ref(), 256);
        prefill(&mut one, &(0..70).map(|id| id % 59).collect::<Vec<u32>>());
        let saved = save(&mut one, usize::MAX);
        for other in ["llama-gguf", "qwen3_5-hf", "lfm2-bias-hf"] {
            refuses(other, cpu.as_ref(), &saved);
        }
        // The same on another device lies otherwise.
        refuses(model, gpu.as_ref(), &saved);
        // The same with another weight, with other frequencies, and with less room.
        let mut files = with_context(model, 512);
        let at = files[1].1.len() - 3;
        files[1].1[at] ^= 1;
        let mut other = session_of(files, cpu.as_ref(), 256);
        assert!(other.restore(&saved).is_err(), "{model}");
        let files = with_context(model, 400);
        let mut other = session_of(files, cpu.as_ref(), 256);
        assert!(other.restore(&saved).is_err(), "{model}");
        let mut small = session(model, cpu.as_ref(), 64);
        assert!(small.restore(&saved).is_err(), "{model}");
        let mut same = session(model, cpu.as_ref(), 128);
        same.restore(&saved).unwrap();
    }
}

/// Bytes of any kind are an error or the prefix itself, and never a panic.
#[test]
fn damaged_bytes_are_refused() {
    let mut random = ChaCha8Rng::seed_from_u64(34);
    for (_, backend) in backends() {
        for model in ["llama-gguf", "granite4-h-gguf"] {
            let mut one = session(model, backend.as_ref(), 64);
            prefill(&mut one, &[5, 6, 7]);
            let bytes = save(&mut one, usize::MAX).to_bytes();
            for length in (0..bytes.len()).step_by(7) {
                assert!(Saved::from_bytes(&bytes[..length]).is_err());
            }
            let longer = [bytes.as_slice(), &[0]].concat();
            assert!(Saved::from_bytes(&longer).is_err());
            for _ in 0..400 {
                let mut damaged = bytes.clone();
                // Lengths and counts lie before byte 128.
                let within = if random.next_u32().is_multiple_of(2) {
                    128
                } else {
                    bytes.len()
                };
                let at = random.next_u32() as usize % within;
                damaged[at] ^= 1 << (random.next_u32() % 8);
                assert!(Saved::from_bytes(&damaged).is_err(), "byte {at}");
                // Bytes made on purpose have the right digest.
                let mut hasher = DefaultHasher::new();
                hasher.write(&damaged[..16]);
                hasher.write(&damaged[24..]);
                damaged[16..24].copy_from_slice(&hasher.finish().to_le_bytes());
                let Ok(hostile) = Saved::from_bytes(&damaged) else {
                    continue;
                };
                let mut other = session(model, backend.as_ref(), 64);
                if other.restore(&hostile).is_ok() {
                    prefill(&mut other, &[5, 6, 7, 8]);
                }
            }
        }
    }
}
