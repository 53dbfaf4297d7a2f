//! The default rule's judgements: trust, agreement, repetition, sureness, and drafts alone.

use conclave_ensemble::{Candidate, Query, Rule, Score, Settings};

fn candidate(text: &str, ended: bool) -> Candidate {
    Candidate {
        text: text.into(),
        ended,
    }
}

/// A verifier's surprise at a candidate, as a score.
fn surprising(nats: f64) -> Score {
    Score {
        mean_logprob: Some(-1.0),
        harmonic: Some(-nats),
        ..Score::default()
    }
}

/// Query to two members, the second twice as strong, and their scores of the candidates.
fn voted(candidates: [(&str, bool); 2], surprises: [[f64; 2]; 2], settings: Settings) -> usize {
    let mut query = Query::new(2, settings).unwrap();
    query.trust(&[1.0, 2.0], &[true; 2]).unwrap();
    query.ask(["What builds dams?", "The beaver.", "What does it eat?"]);
    let candidates = candidates.map(|(text, ended)| candidate(text, ended));
    query.drafted(&[0, 1], &candidates).unwrap();
    let scores = surprises.map(|row| row.map(surprising).to_vec());
    let shares = query.normalise(&scores).unwrap();
    query.select(&shares).unwrap().winner
}

/// The default without extra votes for confidence.
fn calm() -> Settings {
    Settings {
        confidence: 0.0,
        ..Settings::default()
    }
}

#[test]
fn the_stronger_member_is_heard_more_and_most_while_it_goes_on() {
    // The weaker rates the other's candidate three times lower than its own, the stronger less than
    // twice.
    let surprises = [[0.8, 2.8], [3.2, 1.8]];
    let ended = [("Bark.", true), ("Fish.", true)];
    let equal = Settings {
        trust: 0.0,
        ..calm()
    };
    assert_eq!(voted(ended, surprises, equal), 0);
    let mild = Settings {
        trust: 0.4,
        ..calm()
    };
    assert_eq!(voted(ended, surprises, mild.clone()), 0);
    assert_eq!(
        voted([("Bark.", true), ("It eats", false)], surprises, mild),
        1
    );
    assert_eq!(voted(ended, surprises, calm()), 1);
}

#[test]
fn members_that_say_the_same_stand_together() {
    // Each finds the other's form unlikely; the first is surer of its own.
    let surprises = [[0.3, 3.0], [6.0, 1.0]];
    let alike = [("Bark", true), ("A beaver eats bark.", true)];
    let apart = [("Bark", true), ("A beaver eats fish.", true)];
    let equal = |agree| Settings {
        trust: 0.0,
        agree,
        ..calm()
    };
    // Agreement changes no winner here: the best liked form is kept.
    assert_eq!(
        voted(alike, surprises, equal(true)),
        voted(alike, surprises, equal(false))
    );
    let totals = |candidates: [(&str, bool); 2]| {
        let mut query = Query::new(2, equal(true)).unwrap();
        let candidates = candidates.map(|(text, ended)| candidate(text, ended));
        query.drafted(&[0, 1], &candidates).unwrap();
        let scores = surprises.map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&scores).unwrap();
        query.select(&shares).unwrap().totals
    };
    assert_eq!(totals(alike), [0.5, 0.5]);
    assert_ne!(totals(apart), [0.5, 0.5]);
}

#[test]
fn what_repeats_or_ends_unsure_counts_for_less() {
    let all = |discount| Settings {
        trust: 0.0,
        discount,
        ..calm()
    };
    // An earlier turn surprises no verifier.
    let again = [("The beaver.", true), ("Bark.", true)];
    let surprises = [[0.5, 1.0], [0.9, 0.6]];
    assert_eq!(voted(again, surprises, all(1.0)), 0);
    assert_eq!(voted(again, surprises, all(0.5)), 1);
    // One candidate ends unsure while the other continues.
    let early = [("Things.", true), ("A beaver eats", false)];
    for (own, winner) in [(2.5, 0), (2.7, 1)] {
        let surprises = [[own, 6.0], [4.0, 3.0]];
        assert_eq!(voted(early, surprises, all(0.5)), winner, "{own} nats");
        assert_eq!(voted(early, surprises, all(1.0)), 0);
    }
    // A stronger member that ends need not be sure.
    let late = [("A beaver eats", false), ("Things.", true)];
    let surprises = [[3.0, 4.0], [6.0, 2.7]];
    assert_eq!(
        voted(late, surprises, all(0.5)),
        0,
        "as strong in this query"
    );
    assert_eq!(voted(late, surprises, calm()), 1);
}

#[test]
fn after_the_first_round_the_strongest_that_continues_may_object_to_an_early_end() {
    let settings = Settings {
        trust: 0.0,
        ..calm()
    };
    let said = "A beaver eats bark and lives by the water in a lodge of wood";
    let on = "It eats";
    let nothing: fn(&mut Query, &str) = |_, _| ();
    let asker: fn(&mut Query, &str) = Query::begin;
    let round: fn(&mut Query, &str) = |query, text| {
        query.stop(&candidate(text, false));
    };
    // The beginning of the answer; the surprise of the member that continues at the early end, and
    // at its own candidate, if it judges; that candidate; the winner.
    for (case, (begin, own, continues, winner)) in [
        (nothing, Some([4.0, 3.0]), on, 0),
        (round, Some([4.0, 3.0]), on, 1),
        (asker, Some([4.0, 3.0]), on, 1),
        (round, Some([2.9, 3.0]), on, 0),
        (round, None, on, 0),
        (round, Some([8.0, 0.5]), said, 0),
        (asker, Some([8.0, 0.5]), said, 0),
        (round, Some([8.0, 0.5]), on, 1),
    ]
    .into_iter()
    .enumerate()
    {
        let mut query = Query::new(2, settings.clone()).unwrap();
        begin(&mut query, said);
        let candidates = [candidate("Things.", true), candidate(continues, false)];
        query.drafted(&[0, 1], &candidates).unwrap();
        let rows = [Some([0.9, 6.0]), own];
        let rows = rows.map(|row| row.into_iter().flatten().map(surprising).collect());
        let shares = query.normalise(&rows).unwrap();
        let found = query.select(&shares).unwrap().winner;
        assert_eq!(found, winner, "case {case}: {own:?}, {continues}");
    }
}

#[test]
fn a_member_goes_on_only_if_its_first_candidate_does() {
    // The stronger member drafted two, and finds its own first surprising.
    let total = |goes_on: [bool; 3]| {
        let mut query = Query::new(2, calm()).unwrap();
        query.trust(&[2.0, 1.0], &[true; 2]).unwrap();
        let texts = ["Leaves.", "It eats", "Fish."];
        let mut goes_on = goes_on.into_iter();
        let candidates = texts.map(|text| candidate(text, !goes_on.next().unwrap()));
        query.drafted(&[0, 0, 1], &candidates).unwrap();
        let rows = [[3.0, 3.5, 4.0], [2.0, 3.0, 1.5]];
        let rows = rows.map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&rows).unwrap();
        query.select(&shares).unwrap().totals[0]
    };
    let ended = total([false; 3]);
    assert_eq!(total([false, true, false]), ended);
    assert_ne!(total([true, false, false]), ended);
}

#[test]
fn the_strongest_of_those_that_continue_may_object() {
    let mut query = Query::new(3, calm()).unwrap();
    query.trust(&[1.0, 1.0, 3.0], &[true; 3]).unwrap();
    query.stop(&candidate("It lives by the water.", false));
    let texts = [("Things.", true), ("Its food", false), ("A beaver", false)];
    let candidates = texts.map(|(text, ended)| candidate(text, ended));
    query.drafted(&[0, 1, 2], &candidates).unwrap();
    // The second would object, the third does not.
    let rows = [[0.9, 4.0, 4.0], [4.0, 1.0, 4.0], [1.9, 4.0, 2.0]];
    let rows = rows.map(|row| row.map(surprising).to_vec());
    let shares = query.normalise(&rows).unwrap();
    assert_eq!(query.select(&shares).unwrap().winner, 0);
}

#[test]
fn who_holds_most_of_the_vote_and_goes_on_drafts_alone_until_it_is_unsure() {
    let begin = |settings: Settings| {
        let mut query = Query::new(2, settings).unwrap();
        query.trust(&[1.0, 3.0], &[true; 2]).unwrap();
        query
    };
    let vote = |query: &mut Query, ended: bool| {
        let candidates = [candidate("Fish.", true), candidate("A beaver eats", ended)];
        query.drafted(&[0, 1], &candidates).unwrap();
        let rows = [[1.0, 4.0], [4.0, 1.0]].map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&rows).unwrap();
        assert_eq!(query.select(&shares).unwrap().winner, 1);
        query.stop(&candidates[1]);
        query.leader()
    };
    let mut query = begin(Settings::default());
    assert_eq!(query.leader(), None, "all draft first");
    assert_eq!(vote(&mut query, false), Some(1));
    // Weights are 3^1.5 : 1, so that its own surprise counts 0.84, the other's 0.16.
    let lone = [candidate(" bark", false)];
    query.drafted(&[1], &lone).unwrap();
    for (other, own, taken) in [
        (9.0, 2.9, true),
        (9.0, 3.2, false),
        (1.0, 4.5, true),
        (1.0, 4.7, false),
    ] {
        let rows = [vec![surprising(other)], vec![surprising(own)]];
        assert_eq!(query.trusts(&rows), Ok(taken), "{other} and {own}");
    }
    query.stop(&lone[0]);
    assert_eq!(query.leader(), Some(1), "it leads on");
    query.leave(&[1]).unwrap();
    assert_eq!(query.leader(), None);
    // Not if it is over, if the vote is divided, nor under the paper's rule.
    assert_eq!(vote(&mut begin(Settings::default()), true), None);
    let equal = Settings {
        trust: 0.0,
        ..Settings::default()
    };
    let mut equal = begin(equal);
    equal
        .drafted(
            &[0, 1],
            &[candidate("It", false), candidate("A beaver", false)],
        )
        .unwrap();
    let shares = equal
        .normalise(&vec![[4.0, 1.0].map(surprising).to_vec(); 2])
        .unwrap();
    equal.select(&shares).unwrap();
    equal.stop(&candidate("A beaver", false));
    assert_eq!(equal.leader(), None);
    assert_eq!(Settings::preset(Rule::Paper).lead, 1.0);
}

#[test]
fn who_is_sure_of_its_own_answer_is_heard_more() {
    let settings = |confidence| Settings {
        trust: 0.0,
        confidence,
        ..Settings::default()
    };
    // The second prefers its own by a factor of two, but is not sure of it; the first is.
    let surprises = [[0.9, 1.8], [6.0, 2.5]];
    let ended = [("Bark.", true), ("Fish.", true)];
    assert_eq!(voted(ended, surprises, settings(0.0)), 1);
    assert_eq!(voted(ended, surprises, settings(2.0)), 0);
    // A base model is always surer of a word.
    let base = |chats| {
        let mut query = Query::new(2, settings(2.0)).unwrap();
        query.trust(&[1.0, 1.0], &[chats, true]).unwrap();
        let candidates = [candidate("Bark.", true), candidate("Fish.", true)];
        query.drafted(&[0, 1], &candidates).unwrap();
        let rows = surprises.map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&rows).unwrap();
        query.select(&shares).unwrap().totals[0]
    };
    assert!(base(false) < base(true));
    // Surprise below the least counts as the least.
    let shy = [[0.0, 0.7], [6.0, 0.8]];
    assert_eq!(
        voted(ended, shy, settings(0.0)),
        voted(ended, shy, settings(2.0))
    );
    // No member counts more for having finished while the strongest continues.
    let open = [("Bark.", true), ("It eats", false)];
    assert_eq!(
        voted(open, surprises, settings(0.0)),
        voted(open, surprises, settings(2.0))
    );
}

#[test]
fn an_answer_begun_is_ended_by_the_strongest() {
    // A function without a body yet: two weak members would close it at once, and are sure of it.
    let texts = [("```", true), ("return text", true)];
    let rows = [[1.2, 11.4], [1.8, 7.4], [5.5, 1.5]];
    let winner = |begun: &str| {
        let mut query = Query::new(3, calm()).unwrap();
        query.trust(&[484.0, 322.0, 878.0], &[true; 3]).unwrap();
        query.ask(["Write a function."]);
        query.begin(begun);
        let candidates = texts.map(|(text, ended)| candidate(text, ended));
        query.drafted(&[0, 2], &candidates).unwrap();
        let scores = rows.map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&scores).unwrap();
        query.select(&shares).unwrap().winner
    };
    assert_eq!(winner(""), 0);
    assert_eq!(winner("def f(text):"), 1);
}

#[test]
fn a_second_candidate_needs_the_support_of_others() {
    let texts = [("Good night", true), ("Yes", true), ("I am sorry.", true)];
    // Member 0 drafted the first two; it finds both of them likelier than the third.
    let winner = |own: [f64; 3], other: [f64; 3]| {
        let mut query = Query::new(2, calm()).unwrap();
        query.ask(["Reply with good night."]);
        let candidates = texts.map(|(text, ended)| candidate(text, ended));
        query.drafted(&[0, 0, 1], &candidates).unwrap();
        let scores = [own, other].map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&scores).unwrap();
        let selection = query.select(&shares).unwrap();
        (selection.winner, selection.totals[1])
    };
    // Its drafter's own liking for the shorter one, and a little of the other's, are not enough.
    assert_eq!(winner([2.0, 1.0, 9.0], [7.0, 6.5, 6.0]), (0, 0.0));
    assert_eq!(winner([2.0, 1.0, 9.0], [7.0, 4.0, 6.0]).0, 1);
    // Nor is what a verifier that abstains might have said.
    let mut query = Query::new(2, calm()).unwrap();
    let candidates = texts.map(|(text, ended)| candidate(text, ended));
    query.drafted(&[0, 0, 1], &candidates).unwrap();
    let row = [2.0, 1.0, 9.0].map(surprising).to_vec();
    let shares = query.normalise(&[row, vec![]]).unwrap();
    assert_eq!(query.select(&shares).unwrap().winner, 0);
}

#[test]
fn a_weaker_members_draft_that_goes_on_needs_the_others() {
    let trial_after = |begun: &str, strengths: [f64; 3], ends: bool, rows: [[f64; 3]; 3]| {
        let mut query = Query::new(3, calm()).unwrap();
        query.trust(&strengths, &[true; 3]).unwrap();
        query.begin(begun);
        let candidates = [
            candidate("A beaver", ends),
            candidate("The animal", false),
            candidate("It is", false),
        ];
        query.drafted(&[0, 1, 2], &candidates).unwrap();
        let scores = rows.map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&scores).unwrap();
        query.select(&shares).unwrap()
    };
    let trial = |strengths, ends, rows| trial_after("", strengths, ends, rows);
    // The first dislikes all but its own; the others hold theirs for nearly as likely.
    let rows = [[1.0, 5.0, 9.0], [2.0, 1.8, 2.0], [2.1, 4.0, 2.0]];
    let unlike = [1.0, 1.0, 2.0];
    let selection = trial(unlike, false, rows);
    assert_eq!(
        (selection.winner, selection.totals[0], selection.totals[1]),
        (2, 0.0, 0.0)
    );
    // Equal members, and one whose draft ends, have no such rival.
    assert_eq!(trial([1.0; 3], false, rows).winner, 0);
    assert!(trial(unlike, true, rows).totals[0] > 0.0);
    // The others prefer it to the strongest's by a little, which begins no answer, and clearly.
    let mut preferred = rows;
    preferred[2][0] = 1.9;
    assert_eq!(trial(unlike, false, preferred).winner, 2);
    let later = trial_after("Guess what.", unlike, false, preferred);
    assert_eq!(later.winner, 0);
    preferred[2][0] = 1.0;
    assert_eq!(trial(unlike, false, preferred).winner, 0);
}

#[test]
fn steps_that_share_words_are_no_circle_of_the_strongest() {
    let said = "Subtract the cost of the bagels from the cost of the bread. So we subtract.";
    let total = |text: &str, strengths: [f64; 2]| {
        let mut query = Query::new(2, calm()).unwrap();
        query.trust(&strengths, &[true; 2]).unwrap();
        query.ask(["What does it cost?"]);
        query.stop(&candidate(said, false));
        let candidates = [candidate(text, false), candidate("Bread is", false)];
        query.drafted(&[0, 1], &candidates).unwrap();
        let scores = [[2.0, 2.0]; 2].map(|row| row.map(surprising).to_vec());
        let shares = query.normalise(&scores).unwrap();
        query.select(&shares).unwrap().totals[0]
    };
    let step = "The cost of the bagels from the cost of milk is 6";
    let circle = "Subtract the cost of the bagels from the cost of the bread";
    for (text, strengths, kept) in [
        (step, [2.0, 1.0], 0.5),
        (circle, [2.0, 1.0], 0.25),
        (step, [1.0, 1.0], 0.25),
        (step, [1.0, 2.0], 0.0),
    ] {
        assert_eq!(total(text, strengths), kept, "{text:?}, {strengths:?}");
    }
}
