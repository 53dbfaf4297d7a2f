//! Mixtures of experts.

use burn::tensor::activation::{sigmoid, softmax};
use burn::tensor::{Int, IntDType, Tensor, TensorData};
use conclave_model::config::{self, Gating};
use conclave_model::weights::Experts;

use crate::tensors::Vector;
use crate::weights::Matrix;

/// Sum of the outputs of each token's experts, weighted by their factors, `[tokens, hidden]`.
pub fn run(
    experts: &Experts<Matrix, Vector>,
    x: Tensor<2>,
    activated: impl Fn(Tensor<2>) -> Tensor<2>,
) -> Tensor<2> {
    let ([tokens, width], of) = (x.dims(), &experts.of);
    let logits = experts.router.product(x.clone());
    let (chosen, factors) = choose(of, &experts.choice_bias, logits);
    let gate = experts.gate.of_experts(&x, &chosen, of.count);
    let up = experts.up.of_experts(&x, &chosen, of.count);
    let active = activated(gate) * up;
    let made = experts.down.of_experts(&active, &chosen, of.count);
    let made = made.reshape([tokens, of.used, width]);
    let weighed = made * factors.reshape([tokens, of.used, 1]);
    weighed.sum_dim(1).reshape([tokens, width])
}

/// Chooses the experts of each token by its router logits `[tokens, experts]`. Returns their
/// indices `[tokens · used]` and the factors on their outputs `[tokens, used]`.
fn choose(
    of: &config::Experts,
    bias: &Option<Vector>,
    logits: Tensor<2>,
) -> (Tensor<1, Int>, Tensor<2>) {
    let ([tokens, count], device) = (logits.dims(), &logits.device());
    let scores = match of.gating {
        Gating::Softmax => softmax(logits, 1),
        Gating::Sigmoid => sigmoid(logits),
    };
    let keys = match bias {
        Some(bias) => scores.clone() + bias.clone().unsqueeze(),
        None => scores.clone(),
    };
    // An expert's rank is how many come before it: larger ones, and of equal ones the first.
    let first = (0..count).flat_map(|own| (0..count).map(move |other| other < own));
    let first: Vec<f32> = first.map(|first| f32::from(u8::from(first))).collect();
    let first = Tensor::<3>::from_data(TensorData::new(first, [1, count, count]), device);
    let (own, other): (Tensor<3>, Tensor<3>) =
        (keys.clone().unsqueeze_dim(2), keys.unsqueeze_dim(1));
    let larger = other.clone().greater(own.clone()).float();
    let before = larger + other.equal(own).float() * first;
    let rank = before.sum_dim(2).reshape([tokens, count]);
    let numbers: Vec<f32> = (0..count).map(|expert| expert as f32).collect();
    let numbers = Tensor::<2>::from_data(TensorData::new(numbers, [1, count]), device);
    let of_rank = |what: &Tensor<2>| {
        let one = |place| (rank.clone().equal_elem(place as f32).float() * what.clone()).sum_dim(1);
        Tensor::cat((0..of.used).map(one).collect(), 1)
    };
    // NaN has no rank, and stays NaN as a factor.
    let chosen = of_rank(&numbers).clamp_max(count as f32 - 1.0);
    let chosen = chosen.reshape([tokens * of.used]).int().cast(IntDType::I32);
    let factors = of_rank(&scores);
    let factors = match of.normalised {
        true => factors.clone() / (factors.sum_dim(1) + config::Experts::EPSILON),
        false => factors,
    };
    (chosen, factors * of.scale)
}
