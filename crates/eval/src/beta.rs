//! Exact binomial intervals (Clopper and Pearson 1934), which are quantiles of beta distributions.

use crate::interval::Interval;

/// Coefficients of Lanczos' approximation of ln Γ, g = 7 and n = 9, accurate to 15 digits (Godfrey
/// 2001).
const LANCZOS: [f64; 9] = [
    0.999_999_999_999_809_9,
    676.520_368_121_885_1,
    -1_259.139_216_722_402_8,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507_343_278_686_905,
    -0.138_571_095_265_720_12,
    9.984_369_578_019_572e-6,
    1.505_632_735_149_311_6e-7,
];

/// Maximum steps of the continued fraction; it converges in O(√max(a, b)), some hundred for
/// 10,000 questions.
const STEPS: u32 = 10_000;

/// 95 % interval (0 to 1) of a share of which `hits` of `count` were observed; `None` if `count` is
/// 0.
///
/// ```
/// let found = conclave_eval::beta::clopper_pearson(0, 100).unwrap();
/// assert!(found.low == 0.0 && (found.high - 0.0362).abs() < 1e-4);
/// ```
pub fn clopper_pearson(hits: usize, count: usize) -> Option<Interval> {
    if count == 0 || hits > count {
        return None;
    }
    let (k, n) = (hits as f64, count as f64);
    Some(Interval {
        low: match hits {
            0 => 0.0,
            _ => quantile(0.025, k, n - k + 1.0),
        },
        high: match hits == count {
            true => 1.0,
            false => quantile(0.975, k + 1.0, n - k),
        },
    })
}

/// Quantile `p` of the beta distribution with `a` and `b` (above 0), by bisection to the last bit.
fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return middle;
        }
        if below(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// Cumulative beta distribution: the regularised incomplete beta function I_x(a, b), by its
/// continued fraction (DLMF 8.17.22) and Lentz's method.
fn below(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges quickly on this side only.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - below(1.0 - x, b, a);
    }
    let scale = a * x.ln() + b * (-x).ln_1p() - ln_beta(a, b);
    let nonzero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..STEPS {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for part in [even, odd] {
            d = 1.0 / nonzero(1.0 + part * d);
            c = nonzero(1.0 + part / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    scale.exp() * fraction / a
}

fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// ln Γ(x) for x of at least 0.5.
fn ln_gamma(x: f64) -> f64 {
    let x = x - 1.0;
    let t = x + 7.5;
    let series: f64 = (1..9)
        .map(|index| LANCZOS[index as usize] / (x + f64::from(index)))
        .sum();
    let half_ln_two_pi = 0.5 * std::f64::consts::TAU.ln();
    half_ln_two_pi + (x + 0.5) * t.ln() - t + (LANCZOS[0] + series).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds with closed forms: 0 of n, n of n, and 1 of 1.
    #[test]
    fn ends_are_powers_of_the_level() {
        for n in [1, 7, 60, 641, 10_000] {
            let none = clopper_pearson(0, n).unwrap();
            let wanted = 1.0 - 0.025_f64.powf(1.0 / n as f64);
            assert_eq!(none.low, 0.0);
            assert!((none.high - wanted).abs() < 1e-12, "{n}: {none:?}");
            let all = clopper_pearson(n, n).unwrap();
            assert!((all.low - (1.0 - wanted)).abs() < 1e-12 && all.high == 1.0);
        }
        assert_eq!(clopper_pearson(0, 0), None);
        assert_eq!(clopper_pearson(2, 1), None);
    }

    /// At an exact bound the binomial tail, summed term by term, is 2.5 %.
    #[test]
    fn tails_of_the_binomial_are_those_of_the_level() {
        let tail = |range: std::ops::RangeInclusive<usize>, n: usize, p: f64| -> f64 {
            let ln_choose = |k: usize| -> f64 {
                let of = |index: usize| ((n - index) as f64 / (index + 1) as f64).ln();
                (0..k).map(of).sum()
            };
            let term = |k: usize| {
                (ln_choose(k) + k as f64 * p.ln() + (n - k) as f64 * (1.0 - p).ln()).exp()
            };
            range.map(term).sum()
        };
        for (k, n) in [
            (1, 2),
            (3, 10),
            (50, 100),
            (77, 641),
            (630, 641),
            (1, 5000),
            (4000, 5000),
        ] {
            let found = clopper_pearson(k, n).unwrap();
            let (above, under) = (tail(k..=n, n, found.low), tail(0..=k, n, found.high));
            assert!((above - 0.025).abs() < 1e-9, "{k} of {n}: {above}");
            assert!((under - 0.025).abs() < 1e-9, "{k} of {n}: {under}");
        }
    }

    /// Γ(n) = (n − 1)! and Γ(1/2) = √π.
    #[test]
    fn the_gamma_function_is_the_factorial() {
        let mut factorial = 0.0;
        for n in 1..170 {
            assert!((ln_gamma(f64::from(n)) - factorial).abs() < 1e-12 * factorial.max(1.0));
            factorial += f64::from(n).ln();
        }
        let root_pi = std::f64::consts::PI.sqrt().ln();
        assert!((ln_gamma(0.5) - root_pi).abs() < 1e-13);
    }
}
