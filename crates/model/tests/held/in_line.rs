//! Verifying in line is exact: one pass over all candidates gives the scores
//! of a pass each, and keeping the winner leaves what a fresh prefill would.

use conclave_model::{Sampler, Sampling, Score};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::session::{relative_error, session, session_of, with_context};
use crate::{backends, backends_at_length};

/// Logits after the prefix.
fn next(session: &mut conclave_model::Session) -> Vec<f32> {
    pollster::block_on(session.next_logits()).unwrap()
}

/// Largest difference allowed between a pass in line and separate passes, in f32.
const TOLERANCE: f64 = 1e-4;

/// Ids below this are in the vocabulary of every fixture.
const VOCABULARY: u32 = 59;

fn ids(random: &mut ChaCha8Rng, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.next_u32() % VOCABULARY).collect()
}

fn between(random: &mut ChaCha8Rng, least: usize, most: usize) -> usize {
    least + random.next_u32() as usize % (most - least + 1)
}

/// Tokens that a pass over these candidates runs: equal ones once, and those that the others share
/// with one of them once, but never all of a candidate.
fn in_line(candidates: &[Vec<u32>]) -> usize {
    let mut apart = candidates.to_vec();
    apart.sort();
    apart.dedup();
    let shared = |branch: &[u32], trunk: &[u32]| {
        let last = branch.len() - 1;
        (0..last)
            .take_while(|&i| trunk.get(i) == Some(&branch[i]))
            .count()
    };
    let saved = |trunk: &Vec<u32>| -> usize {
        let branches = apart.iter().filter(|branch| *branch != trunk);
        branches.map(|branch| shared(branch, trunk)).sum()
    };
    let all: usize = apart.iter().map(Vec::len).sum();
    all - apart.iter().map(saved).max().unwrap_or(0)
}

fn assert_close(found: &Score, wanted: &Score, what: &str) {
    let [found, wanted] = [found, wanted].map(|score| {
        [
            score.mean_logit,
            score.mean_logprob.unwrap(),
            score.harmonic.unwrap(),
        ]
    });
    for (a, b) in found.into_iter().zip(wanted) {
        let scale = b.abs().max(1.0);
        assert!((a - b).abs() <= TOLERANCE * scale, "{what}: {a} is not {b}");
    }
}

/// 2–8 ragged candidates of 1–24 tokens after prefixes of 1–300 tokens, with and without
/// windows.
#[test]
fn one_pass_in_line_equals_a_pass_for_each_candidate() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    for (backend_name, backend) in backends() {
        for (model, prefix) in [
            ("llama-gguf", 1),
            ("qwen3-gguf", 63),
            ("gemma2-gguf", 300),
            ("gemma3-layers-hf", 61),
            ("mistral-hf", 38),
            ("smollm3-gguf", 150),
            ("llama-gguf", 300),
            // Its convolutions see what is before the text, the prefix and their own candidate.
            ("lfm2-hf", 1),
            ("lfm2-bias-hf", 90),
            ("hunyuan-gguf", 64),
            ("gemma4-gguf", 61),
            ("gemma4-wrapped-hf", 45),
            ("lfm2_moe-hf", 52),
            ("olmoe-hf", 80),
        ] {
            let what = format!("{model} on {backend_name} after {prefix}");
            let mut session = session(model, backend.as_ref(), 512);
            let prompt = ids(&mut random, prefix);
            pollster::block_on(session.prefill(&prompt)).unwrap();
            let count = between(&mut random, 2, 8);
            let candidates: Vec<Vec<u32>> = (0..count)
                .map(|_| {
                    let length = between(&mut random, 1, 24);
                    ids(&mut random, length)
                })
                .collect();
            let before = session.counters();
            let together = pollster::block_on(session.verify(&candidates, true)).unwrap();
            let run = session.counters().verify_tokens - before.verify_tokens;
            assert_eq!(run, in_line(&candidates), "{what}");
            for (found, candidate) in together.iter().zip(&candidates) {
                let alone = session.verify(std::slice::from_ref(candidate), true);
                let alone = pollster::block_on(alone).unwrap();
                assert_close(found, &alone[0], &what);
            }
            // Raw logits by one row of the output matrix each.
            let raw = pollster::block_on(session.verify(&candidates, false)).unwrap();
            for (found, wanted) in raw.iter().zip(&together) {
                assert_eq!((found.mean_logprob, found.harmonic), (None, None));
                assert_close(
                    &Score {
                        mean_logit: found.mean_logit,
                        ..*wanted
                    },
                    wanted,
                    &what,
                );
            }
        }
    }
}

/// A plain pass knows nothing of masks: prefix and candidate as one prompt.
#[test]
fn a_score_is_that_of_a_plain_prompt() {
    let mut random = ChaCha8Rng::seed_from_u64(12);
    for (backend_name, backend) in backends() {
        let mut session = session("qwen3-gguf", backend.as_ref(), 256);
        let (prefix, candidate) = (ids(&mut random, 40), ids(&mut random, 9));
        pollster::block_on(session.prefill(&prefix)).unwrap();
        let other = ids(&mut random, 5);
        let candidates = [other, candidate.clone()];
        let scores = pollster::block_on(session.verify(&candidates, true)).unwrap();

        let whole = [prefix.clone(), candidate.clone()].concat();
        let logits = pollster::block_on(session.all_logits(&whole)).unwrap();
        let mean = candidate
            .iter()
            .enumerate()
            .map(|(i, &id)| f64::from(logits[prefix.len() - 1 + i][id as usize]))
            .sum::<f64>()
            / candidate.len() as f64;
        assert!(
            (scores[1].mean_logit - mean).abs() < TOLERANCE * mean.abs().max(1.0),
            "{backend_name}"
        );
    }
}

/// The scores of a candidate after a prefix, both as one plain prompt.
fn as_a_prompt(session: &mut conclave_model::Session, prefix: &[u32], candidate: &[u32]) -> Score {
    let whole = [prefix, candidate].concat();
    let logits = pollster::block_on(session.all_logits(&whole)).unwrap();
    let rows = logits[prefix.len() - 1..].iter().zip(candidate);
    let judged: Vec<(f64, f64)> = rows
        .map(|(row, &id)| {
            let logit = f64::from(row[id as usize]);
            let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
            (logit, logit - sum.ln())
        })
        .collect();
    let count = judged.len() as f64;
    Score {
        mean_logit: judged.iter().map(|one| one.0).sum::<f64>() / count,
        mean_logprob: Some(judged.iter().map(|one| one.1).sum::<f64>() / count),
        harmonic: Some(
            -judged
                .iter()
                .map(|one| (-one.1).exp_m1())
                .sum::<f64>()
                .ln_1p(),
        ),
        tokens: candidate.len(),
    }
}

/// More tokens in line than a pass has slots for run in portions: every backend's scores are those
/// of the first one's plain prompts, and whichever candidate wins, the text goes on as a fresh one
/// does.
#[test]
fn more_than_512_tokens_in_line_are_scored_and_kept_all_the_same() {
    // Candidates across the seams of portions and longer than one; and a context so nearly full
    // that not all rows are there at once.
    let cases: [(&str, usize, usize, &[usize]); 5] = [
        ("mistral-hf", 2048, 40, &[75; 8]),
        ("mistral-hf", 2048, 40, &[1, 700, 24, 600, 512, 63, 100]),
        ("gemma3-layers-hf", 2048, 40, &[513, 1, 86]),
        ("lfm2-hf", 2048, 40, &[600, 512, 3]),
        ("mistral-hf", 700, 60, &[600, 512, 24, 500, 7, 357]),
    ];
    let (_, reference) = &backends()[0];
    for (model, context, prefix, lengths) in cases {
        let mut random = ChaCha8Rng::seed_from_u64(16);
        let files = with_context(model, context);
        let prompt = ids(&mut random, prefix);
        let mut candidates: Vec<Vec<u32>> = lengths.iter().map(|&n| ids(&mut random, n)).collect();
        // Nothing is shared, so that all tokens run.
        (0..)
            .zip(&mut candidates)
            .for_each(|(first, one)| one[0] = first);
        let mut plain = session_of(files.clone(), reference.as_ref(), context);
        let wanted: Vec<Score> = candidates
            .iter()
            .map(|candidate| as_a_prompt(&mut plain, &prompt, candidate))
            .collect();
        for (backend_name, backend) in backends_at_length() {
            let in_line: usize = lengths.iter().sum();
            let what = format!("{in_line} tokens, {model} of {context} on {backend_name}");
            let mut session = session_of(files.clone(), backend.as_ref(), context);
            let mut fresh = session_of(files.clone(), backend.as_ref(), context);
            let last = candidates.len() - 1;
            for winner in [0, last / 2, last] {
                pollster::block_on(session.prefill(&prompt)).unwrap();
                let before = session.counters();
                for logprobs in [false, true] {
                    let found = session.verify(&candidates, logprobs);
                    let found = pollster::block_on(found).unwrap();
                    for (found, wanted) in found.iter().zip(&wanted) {
                        assert_close(
                            &Score {
                                mean_logprob: found.mean_logprob.or(wanted.mean_logprob),
                                harmonic: found.harmonic.or(wanted.harmonic),
                                ..*found
                            },
                            wanted,
                            &what,
                        );
                        assert_eq!(found.mean_logprob.is_some(), logprobs);
                    }
                }
                let run = session.counters().verify_tokens - before.verify_tokens;
                assert_eq!(run, 2 * in_line, "{what}");
                // All of it, or all but its last token.
                let kept = candidates[winner].len().saturating_sub(winner % 2).max(1);
                pollster::block_on(session.keep(winner, kept)).unwrap();
                let again = session.counters().verify_tokens - before.verify_tokens - run;
                let most = if context == 700 { kept } else { 1 };
                assert!(again <= most, "{what}: {again} run again of {kept}");
                let whole = [prompt.as_slice(), &candidates[winner][..kept]].concat();
                assert_eq!(session.prefix(), whole);
                pollster::block_on(fresh.prefill(&whole)).unwrap();
                let error = relative_error(&next(&mut session), &next(&mut fresh));
                assert!(error < 1e-4, "{what}, candidate {winner}: {error:e}");
                // And the next round, the draft's own among the candidates.
                let mut sampler = Sampler::new(Sampling::greedy(), 0);
                let draft = session.draft(10, &mut sampler, &[]);
                let own = pollster::block_on(draft).unwrap().tokens;
                let room = (context - whole.len()).min(600);
                let round = [ids(&mut random, room), own, vec![1, 2, 3]];
                let found = pollster::block_on(session.verify(&round, true)).unwrap();
                let wanted = pollster::block_on(fresh.verify(&round, true)).unwrap();
                for (found, wanted) in found.iter().zip(&wanted) {
                    assert_close(found, wanted, &format!("{what}, after {winner}"));
                }
            }
        }
    }
}

/// Twelve rounds of drafting, verifying and keeping: the prefix is never run
/// again, and the logits stay those of a fresh prefill.
#[test]
fn kept_rows_are_what_a_fresh_prefill_computes() {
    const SEGMENT: usize = 10;
    let mut random = ChaCha8Rng::seed_from_u64(13);
    for (backend_name, backend) in backends_at_length() {
        for model in [
            "llama-gguf",
            "gemma2-gguf",
            "lfm2-gguf",
            "gemma4-hf",
            "olmoe-hf",
        ] {
            let mut long = session(model, backend.as_ref(), 512);
            let mut sampler = Sampler::new(
                Sampling {
                    temperature: 1.0,
                    ..Sampling::default()
                },
                3,
            );
            pollster::block_on(long.prefill(&ids(&mut random, 30))).unwrap();
            for round in 0..12 {
                let before = long.counters();
                let draft = long.draft(SEGMENT, &mut sampler, &[]);
                let mut candidates = vec![pollster::block_on(draft).unwrap().tokens];
                // Cut, as a segment that ends within a word is.
                candidates[0].truncate(between(&mut random, 1, SEGMENT));
                for _ in 0..2 {
                    let length = between(&mut random, 1, SEGMENT);
                    let mut other = ids(&mut random, length);
                    // It shares nothing with the draft.
                    other[0] = (candidates[0][0] + 1) % VOCABULARY;
                    candidates.push(other);
                }
                pollster::block_on(long.verify(&candidates, true)).unwrap();
                let winner = round % 3;
                let kept = between(&mut random, 1, candidates[winner].len());
                pollster::block_on(long.keep(winner, kept)).unwrap();
                let after = long.counters();
                let run = after.draft_tokens + after.verify_tokens
                    - before.draft_tokens
                    - before.verify_tokens;
                let others: usize = candidates[1..].iter().map(Vec::len).sum();
                // The last token of a draft is run only if the cut leaves it.
                let last = usize::from(candidates[0].len() == SEGMENT);
                assert_eq!(run, SEGMENT - 1 + last + others);
                assert_eq!(after.prefill_tokens, before.prefill_tokens);
                assert_eq!(after.prefix, before.prefix + kept);
            }
            let mut fresh = session(model, backend.as_ref(), 512);
            pollster::block_on(fresh.prefill(long.prefix())).unwrap();
            let error = relative_error(&next(&mut long), &next(&mut fresh));
            assert!(error < 1e-4, "{model} on {backend_name}: {error:e}");
        }
    }
}

/// Tokens that a draft has run are not run again, and equal candidates run once: the scores are the
/// same.
#[test]
fn drafts_and_equal_candidates_run_once() {
    let mut random = ChaCha8Rng::seed_from_u64(15);
    for (backend_name, backend) in backends() {
        for model in [
            "llama-gguf",
            "gemma2-gguf",
            "lfm2-gguf",
            "gemma4-gguf",
            "lfm2_moe-hf",
        ] {
            let mut drafter = session(model, backend.as_ref(), 256);
            let mut other = session(model, backend.as_ref(), 256);
            let prompt = ids(&mut random, 70);
            pollster::block_on(drafter.prefill(&prompt)).unwrap();
            pollster::block_on(other.prefill(&prompt)).unwrap();
            let mut sampler = Sampler::new(Sampling::default(), 1);
            let draft = pollster::block_on(drafter.draft(10, &mut sampler, &[])).unwrap();
            let own = draft.tokens[..7].to_vec();
            // The first tokens of the draft, then others.
            let mut torn = draft.tokens[..4].to_vec();
            torn.extend([1, 2, 3]);
            let foreign = ids(&mut random, 5);
            for (candidates, runs) in [
                (vec![foreign.clone(), own.clone()], 5),
                (
                    vec![own.clone(), own.clone(), foreign.clone(), foreign.clone()],
                    5,
                ),
                // Only the first seven rows of the draft are left. A candidate runs its last
                // token even if the other has it too.
                (vec![draft.tokens.clone(), own.clone()], 3 + 1),
                (vec![own.clone()], 0),
                (vec![torn.clone(), foreign.clone()], 3 + 5),
                (vec![own.clone()], 3),
            ] {
                let what = format!("{model} on {backend_name}: {candidates:?}");
                let before = drafter.counters().verify_tokens;
                let found = pollster::block_on(drafter.verify(&candidates, true)).unwrap();
                assert_eq!(drafter.counters().verify_tokens - before, runs, "{what}");
                for (found, candidate) in found.iter().zip(&candidates) {
                    let alone = other.verify(std::slice::from_ref(candidate), true);
                    assert_close(found, &pollster::block_on(alone).unwrap()[0], &what);
                }
            }
            // Kept from the draft's rows alone, the text goes on as one that was run anew.
            pollster::block_on(drafter.keep(0, 6)).unwrap();
            let whole = [prompt.as_slice(), &own[..6]].concat();
            pollster::block_on(other.prefill(&whole)).unwrap();
            let error = relative_error(&next(&mut drafter), &next(&mut other));
            assert!(error < 1e-4, "{model} on {backend_name}: {error:e}");
            let candidates = [ids(&mut random, 8), ids(&mut random, 3)];
            let found = pollster::block_on(drafter.verify(&candidates, true)).unwrap();
            let wanted = pollster::block_on(other.verify(&candidates, true)).unwrap();
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_close(found, wanted, "after the kept draft");
            }
        }
    }
}

/// Candidates that begin as another does run only what follows, with the same scores, and whichever
/// wins, in whole or cut within the shared tokens, the text goes on as a fresh one does.
#[test]
fn shared_beginnings_run_once() {
    let mut random = ChaCha8Rng::seed_from_u64(17);
    for (backend_name, backend) in backends() {
        for (model, prefix) in [
            ("llama-gguf", 1),
            ("gemma2-gguf", 70),
            ("gemma3-layers-hf", 61),
            ("lfm2-gguf", 30),
            ("gemma4-gguf", 90),
            ("lfm2_moe-hf", 45),
        ] {
            let what = format!("{model} on {backend_name} after {prefix}");
            let mut session = session(model, backend.as_ref(), 256);
            let mut fresh = self::session(model, backend.as_ref(), 256);
            let prompt = ids(&mut random, prefix);
            let trunk = ids(&mut random, 12);
            let branch = |random: &mut ChaCha8Rng, shared: usize, own: usize| {
                let mut tokens = trunk[..shared].to_vec();
                tokens.push((trunk[shared] + 1) % VOCABULARY);
                tokens.extend(ids(random, own));
                tokens
            };
            let candidates = [
                branch(&mut random, 9, 3),
                branch(&mut random, 0, 4),
                trunk.clone(),
                branch(&mut random, 5, 0),
                trunk[..4].to_vec(),
            ];
            let runs = 4 + 5 + 12 + 1 + 1;
            for winner in 0..candidates.len() {
                let length = candidates[winner].len();
                for kept in [1, length.div_ceil(2), length] {
                    pollster::block_on(session.prefill(&prompt)).unwrap();
                    let before = session.counters().verify_tokens;
                    let found = pollster::block_on(session.verify(&candidates, true)).unwrap();
                    assert_eq!(session.counters().verify_tokens - before, runs, "{what}");
                    pollster::block_on(fresh.prefill(&prompt)).unwrap();
                    for (found, candidate) in found.iter().zip(&candidates) {
                        let alone = fresh.verify(std::slice::from_ref(candidate), true);
                        let alone = pollster::block_on(alone).unwrap();
                        assert_close(found, &alone[0], &what);
                    }
                    pollster::block_on(session.keep(winner, kept)).unwrap();
                    assert_eq!(session.counters().verify_tokens - before, runs, "{what}");
                    let whole = [prompt.as_slice(), &candidates[winner][..kept]].concat();
                    assert_eq!(session.prefix(), whole);
                    pollster::block_on(fresh.prefill(&whole)).unwrap();
                    let error = relative_error(&next(&mut session), &next(&mut fresh));
                    assert!(error < 1e-4, "{what}, {kept} of {winner}: {error:e}");
                }
            }
            // A draft is the trunk of what begins as it does.
            let mut sampler = Sampler::new(Sampling::default(), 2);
            let drafted = pollster::block_on(session.draft(10, &mut sampler, &[])).unwrap();
            let mut other = drafted.tokens[..6].to_vec();
            other.push((drafted.tokens[6] + 1) % VOCABULARY);
            let candidates = [other, drafted.tokens];
            let before = session.counters().verify_tokens;
            let found = pollster::block_on(session.verify(&candidates, true)).unwrap();
            assert_eq!(session.counters().verify_tokens - before, 2, "{what}");
            let wanted = pollster::block_on(fresh.verify(&candidates, true)).unwrap();
            for (found, wanted) in found.iter().zip(&wanted) {
                assert_close(found, wanted, &what);
            }
            pollster::block_on(session.keep(0, 7)).unwrap();
            pollster::block_on(fresh.keep(0, 7)).unwrap();
            let error = relative_error(&next(&mut session), &next(&mut fresh));
            assert!(error < 1e-4, "{what}, after the draft: {error:e}");
        }
    }
}

#[test]
fn a_follow_up_runs_only_what_is_new() {
    let mut random = ChaCha8Rng::seed_from_u64(14);
    for (_, backend) in backends() {
        let mut session = session("llama-gguf", backend.as_ref(), 256);
        let first = ids(&mut random, 50);
        assert_eq!(pollster::block_on(session.prefill(&first)).unwrap(), 50);
        let longer = [first.clone(), ids(&mut random, 7)].concat();
        assert_eq!(pollster::block_on(session.prefill(&longer)).unwrap(), 7);
        // The same again: the logits are there. A shorter one: its last token's are not.
        assert_eq!(pollster::block_on(session.prefill(&longer)).unwrap(), 0);
        assert_eq!(pollster::block_on(session.prefill(&first)).unwrap(), 1);
        let kept = next(&mut session);
        session.release();
        assert_eq!(pollster::block_on(session.prefill(&first)).unwrap(), 50);
        assert!(relative_error(&kept, &next(&mut session)) < 1e-4);
    }
}

#[test]
fn what_does_not_fit_is_an_error_and_harms_nothing() {
    use conclave_model::ModelError;
    for (_, backend) in backends() {
        let mut session = session("llama-gguf", backend.as_ref(), 64);
        let long = vec![1; 64];
        assert!(matches!(
            pollster::block_on(session.prefill(&long)),
            Err(ModelError::ContextFull {
                needed: 65,
                context: 64,
                ..
            })
        ));
        pollster::block_on(session.prefill(&[1; 60])).unwrap();
        let mut sampler = Sampler::new(Sampling::greedy(), 0);
        let draft = pollster::block_on(session.draft(10, &mut sampler, &[])).unwrap();
        assert_eq!(draft.tokens.len(), 4);
        assert!(matches!(
            pollster::block_on(session.verify(&[vec![1; 5]], true)),
            Err(ModelError::ContextFull { .. })
        ));
        assert!(matches!(
            pollster::block_on(session.verify(&[vec![100_000]], true)),
            Err(ModelError::Token { id: 100_000, .. })
        ));
        assert!(matches!(
            pollster::block_on(session.keep(0, 1)),
            Err(ModelError::Order(_))
        ));
        let scores = pollster::block_on(session.verify(&[vec![1; 4]], true)).unwrap();
        assert!(scores[0].mean_logit.is_finite());
    }
}
