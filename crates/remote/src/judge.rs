//! A judge that can only chat: it is shown the question, the answer so far and the candidates under
//! letters, and names one.
//!
//! Its row is made of what it says of the same candidates in two orders, the second with each candidate half
//! way further: a model that prefers a place names different candidates then, and one that knows names
//! the same. How often the two agree is its reliability; how often each place is named, whatever stands
//! there, its bias. A vote counts for less the more the place is named anyway, and the row is softened by
//! how little the judge agrees with itself:
//!
//! preference_j = ρ · v_j / Σ v + (1 − ρ) / M
//!
//! with v_j the votes for candidate j, each over how often its place is named relative to chance, and ρ
//! the agreement beyond chance, (a − 1/M) / (1 − 1/M), between 0 and [`SUREST`]. Both are counted over
//! the whole time that the judge is in use, and begin with a few rounds of nobody's votes, so that one
//! vote makes no certainty.

/// ρ at most: nobody is never wrong.
const SUREST: f64 = 0.9;

/// Rounds of no preference that every count begins with.
const BEFORE: f64 = 2.0;

/// The letters of candidates: as many as an ensemble has members.
pub const LETTERS: &[u8; 8] = b"ABCDEFGH";

/// What is known of a judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Judge {
    /// How often each place was named beyond its chance, `[8]`; relative to 1 a round.
    named: [f64; 8],
    /// Rounds that both orders were asked in, and in how many both named the same.
    rounds: f64,
    agreed: f64,
    seed: u64,
}

impl Judge {
    /// A judge that nobody knows yet; `seed` shuffles its candidates.
    pub fn new(seed: u64) -> Self {
        Self {
            named: [0.0; 8],
            rounds: 0.0,
            agreed: 0.0,
            seed,
        }
    }

    /// Two orders of `candidates` for this round: `order[place]` is a candidate. One candidate needs no
    /// order, and none is given.
    pub fn orders(&self, candidates: usize, round: u64) -> Vec<Vec<usize>> {
        if !(2..=LETTERS.len()).contains(&candidates) {
            return Vec::new();
        }
        let mut order: Vec<usize> = (0..candidates).collect();
        let mut state = self.seed ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Fisher and Yates, by splitmix64.
        for place in (1..candidates).rev() {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= mixed >> 31;
            order.swap(place, (mixed % (place as u64 + 1)) as usize);
        }
        let mut turned = order.clone();
        turned.rotate_left(candidates / 2);
        vec![order, turned]
    }

    /// The row (`[candidates]`, positive, summing to 1) of what was named in `orders`: a place each, `None`
    /// where no letter was understood. What it says of the judge is counted.
    pub fn row(&mut self, orders: &[Vec<usize>], named: &[Option<usize>]) -> Vec<f64> {
        let count = orders.first().map_or(1, Vec::len);
        let even = 1.0 / count as f64;
        let mut votes = vec![0.0; count];
        let named: Vec<(usize, usize)> = orders
            .iter()
            .zip(named)
            .filter_map(|(order, &place)| Some((place?, *order.get(place?)?)))
            .collect();
        if let [(_, a), (_, b)] = named[..] {
            self.rounds += 1.0;
            self.agreed += f64::from(u8::from(a == b));
        }
        for &(place, _) in &named {
            self.named[place] += 1.0;
        }
        for &(place, candidate) in &named {
            votes[candidate] += 1.0 / self.bias(place, count);
        }
        let sum: f64 = votes.iter().sum();
        if sum == 0.0 {
            return vec![even; count];
        }
        let sure = self.reliability(count);
        let soft = |vote: f64| sure * vote / sum + (1.0 - sure) * even;
        votes.into_iter().map(soft).collect()
    }

    /// How often a place is named, relative to chance among `count` of them: 1 is no bias.
    pub fn bias(&self, place: usize, count: usize) -> f64 {
        let all: f64 = self.named[..count].iter().sum();
        (self.named[place] + BEFORE) * count as f64 / (all + BEFORE * count as f64)
    }

    /// ρ among `count` candidates: its agreement with itself beyond chance.
    pub fn reliability(&self, count: usize) -> f64 {
        let chance = 1.0 / count as f64;
        // As if it had agreed in half of what chance leaves, before anything is known.
        let before = BEFORE * (chance + (1.0 - chance) / 2.0);
        let agreement = (self.agreed + before) / (self.rounds + BEFORE);
        ((agreement - chance) / (1.0 - chance)).clamp(0.0, SUREST)
    }
}

/// What the judge is told: the question, the answer so far, and the candidates in this order.
pub fn prompt(question: &str, answer: &str, candidates: &[&str], order: &[usize]) -> String {
    let so_far = if answer.is_empty() {
        "(nothing yet)"
    } else {
        answer
    };
    let mut out = format!(
        "Several assistants write an answer together. Choose how it goes on best.\n\nQuestion:\n{question}\n\nAnswer so far:\n{so_far}\n\nContinuations:\n"
    );
    for (&letter, &candidate) in LETTERS.iter().zip(order) {
        let text = candidates.get(candidate).copied().unwrap_or_default();
        let text = if text.is_empty() {
            "(the answer ends here)"
        } else {
            text
        };
        out += &format!("{}: {text}\n", char::from(letter));
    }
    out + "\nReply with the letter of the best continuation and nothing else."
}

/// The place that an answer names among `count`: its first word that is one of the letters.
pub fn named(answer: &str, count: usize) -> Option<usize> {
    let words = answer.split(|c: char| !c.is_alphanumeric());
    let place = |word: &str| {
        let [letter] = word.as_bytes() else {
            return None;
        };
        LETTERS[..count.min(LETTERS.len())]
            .iter()
            .position(|known| known == letter)
    };
    words.into_iter().find_map(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges `rounds` rounds of three candidates; `names` says which candidate or place it is for.
    fn after(rounds: u64, names: impl Fn(&[usize]) -> usize) -> (Judge, Vec<f64>) {
        let mut judge = Judge::new(7);
        let mut row = Vec::new();
        for round in 0..rounds {
            let orders = judge.orders(3, round);
            let named: Vec<_> = orders.iter().map(|order| Some(names(order))).collect();
            row = judge.row(&orders, &named);
        }
        (judge, row)
    }

    fn place_of(order: &[usize], candidate: usize) -> usize {
        order.iter().position(|&one| one == candidate).unwrap()
    }

    #[test]
    fn one_that_knows_is_believed_more_the_longer_it_agrees_with_itself() {
        let knows = |order: &[usize]| place_of(order, 1);
        let (_, first) = after(1, knows);
        let (judge, later) = after(30, knows);
        for row in [&first, &later] {
            assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12 && row.iter().all(|&x| x > 0.0));
            assert!(row[1] > row[0] && row[1] > row[2]);
        }
        assert!(
            later[1] > first[1] && later[1] > 0.9 && first[1] < 0.85,
            "{first:?} {later:?}"
        );
        assert!(judge.reliability(3) <= SUREST);
        // It names no place more than another.
        assert!((0..3).all(|place| (judge.bias(place, 3) - 1.0).abs() < 0.4));
    }

    #[test]
    fn one_that_likes_a_place_is_not_believed() {
        let (judge, row) = after(30, |_| 0);
        assert!(judge.reliability(3) < 0.05);
        assert!(
            row.iter().all(|&share| (share - 1.0 / 3.0).abs() < 0.05),
            "{row:?}"
        );
        assert!(judge.bias(0, 3) > 2.0);
    }

    #[test]
    fn the_same_candidates_rotated_have_the_same_row() {
        // One that knows half of the time, and names the first place otherwise: what is left of its
        // likings after the correction is for the candidate, wherever that stands.
        let mut judge = Judge::new(3);
        let mut sums = [0.0; 3];
        for round in 0..300 {
            let orders = judge.orders(3, round);
            let knows = round % 2 == 0;
            let named: Vec<_> = orders
                .iter()
                .map(|order| Some(if knows { place_of(order, 2) } else { 0 }))
                .collect();
            for (sum, share) in sums.iter_mut().zip(judge.row(&orders, &named)) {
                *sum += share / 300.0;
            }
        }
        assert!(
            sums[2] > sums[0] + 0.1 && sums[2] > sums[1] + 0.1,
            "{sums:?}"
        );
        assert!(
            (sums[0] - sums[1]).abs() < 0.03,
            "no place is left in it: {sums:?}"
        );
    }

    #[test]
    fn a_vote_for_a_place_that_is_always_named_counts_for_less() {
        let mut judge = Judge::new(1);
        judge.named[0] = 20.0;
        // Candidate 0 was named where all are; candidate 2 in spite of its place.
        let row = judge.row(&[vec![0, 1, 2], vec![1, 2, 0]], &[Some(0), Some(1)]);
        assert!(row[2] > row[0], "{row:?}");
    }

    #[test]
    fn silence_is_no_preference() {
        let mut judge = Judge::new(1);
        let orders = judge.orders(4, 0);
        assert_eq!(judge.row(&orders, &[None, None]), [0.25; 4]);
        assert_eq!(judge.rounds, 0.0);
        assert_eq!(judge.row(&[], &[]), [1.0]);
        assert!(judge.orders(1, 0).is_empty());
    }

    #[test]
    fn orders_are_seeded_and_the_second_moves_every_candidate() {
        let judge = Judge::new(5);
        assert_eq!(judge.orders(5, 3), judge.orders(5, 3));
        let firsts: std::collections::BTreeSet<_> = (0..40)
            .map(|round| judge.orders(3, round)[0].clone())
            .collect();
        assert_eq!(firsts.len(), 6, "all orders come");
        for count in 2..=8 {
            let orders = judge.orders(count, 1);
            assert!((0..count).all(|place| orders[0][place] != orders[1][place]));
        }
    }

    #[test]
    fn letters_are_read_as_models_write_them() {
        for (said, place) in [
            ("B", Some(1)),
            (" B.", Some(1)),
            ("**C**", Some(2)),
            ("Letter: A", Some(0)),
            ("The best is (B)", Some(1)),
            ("D", None),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(named(said, 3), place, "{said}");
        }
        let told = prompt("Why?", "", &["one", ""], &[1, 0]);
        assert!(
            told.contains("A: (the answer ends here)\nB: one\n"),
            "{told}"
        );
    }
}
