//! Choice of a token's experts and their factors.

use std::cmp::Ordering;

/// Choice of experts by a router's logits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing<'a> {
    /// Number of experts chosen for a token.
    pub used: usize,
    /// Whether scores are the softmax of the logits instead of σ of each.
    pub softmax: bool,
    /// Bias on the scores for the choice, one number per expert; the factors are made without it.
    pub choice_bias: Option<&'a [f32]>,
    /// Number added to the sum of the chosen experts' scores, by which they are then divided;
    /// `None` leaves them unchanged.
    pub normalised: Option<f32>,
    /// Factor applied to the scores last.
    pub scale: f32,
}

impl Routing<'_> {
    /// The experts of a token with the factors on their outputs, best first, lower index first
    /// among equals. `logits` become scores.
    ///
    /// NaN is chosen first, so that it is not lost.
    pub fn choose(&self, logits: &mut [f32]) -> Vec<(usize, f32)> {
        if self.softmax {
            let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            logits.iter_mut().for_each(|x| *x = (*x - most).exp());
            let sum: f32 = logits.iter().sum();
            logits.iter_mut().for_each(|x| *x /= sum);
        } else {
            logits
                .iter_mut()
                .for_each(|x| *x = 1.0 / (1.0 + (-*x).exp()));
        }
        let scores = &*logits;
        let key = |expert: usize| {
            let key = scores[expert] + self.choice_bias.map_or(0.0, |bias| bias[expert]);
            // Either sign of NaN.
            if key.is_nan() { f32::NAN } else { key }
        };
        let mut order: Vec<usize> = Vec::with_capacity(self.used);
        for _ in 0..self.used.min(scores.len()) {
            let left = (0..scores.len()).filter(|expert| !order.contains(expert));
            let best = left.reduce(|best, next| match key(next).total_cmp(&key(best)) {
                Ordering::Greater => next,
                _ => best,
            });
            order.extend(best);
        }
        let sum: f32 = order.iter().map(|&expert| scores[expert]).sum();
        let factor = match self.normalised {
            Some(epsilon) => self.scale / (sum + epsilon),
            None => self.scale,
        };
        let chosen = order.into_iter();
        chosen
            .map(|expert| (expert, factor * scores[expert]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Routing;

    const PLAIN: Routing<'static> = Routing {
        used: 2,
        softmax: true,
        choice_bias: None,
        normalised: None,
        scale: 1.0,
    };

    fn close(found: &[(usize, f32)], wanted: &[(usize, f32)]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert_eq!(found.0, wanted.0);
            assert!((found.1 - wanted.1).abs() < 1e-6, "{found:?}, {wanted:?}");
        }
    }

    #[test]
    fn a_softmax_is_over_all_experts() {
        let logits = [1.0_f32, 2.0, 3.0].map(f32::ln);
        let found = PLAIN.choose(&mut logits.clone());
        close(&found, &[(2, 1.0 / 2.0), (1, 1.0 / 3.0)]);
        let normalised = Routing {
            normalised: Some(0.0),
            scale: 2.0,
            ..PLAIN
        };
        close(
            &normalised.choose(&mut logits.clone()),
            &[(2, 1.2), (1, 0.8)],
        );
    }

    #[test]
    fn a_bias_is_of_the_choice_alone() {
        let found = Routing {
            softmax: false,
            choice_bias: Some(&[0.0, 0.6, 0.0]),
            ..PLAIN
        }
        .choose(&mut [0.0, -20.0, 20.0]);
        close(&found, &[(2, 1.0), (1, 0.0)]);
    }

    #[test]
    fn equal_experts_come_in_their_order_and_what_is_no_number_comes_first() {
        close(&PLAIN.choose(&mut [7.0; 4]), &[(0, 0.25), (1, 0.25)]);
        let sigmoid = Routing {
            softmax: false,
            ..PLAIN
        };
        let found = sigmoid.choose(&mut [9.0, f32::NAN, 8.0]);
        assert!(
            found[0].0 == 1 && found[0].1.is_nan() && found[1].0 == 0,
            "{found:?}"
        );
    }
}
