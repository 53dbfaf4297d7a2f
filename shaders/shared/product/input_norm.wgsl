// x after its RMS norm. The sweep multiplies by the norm's weight; the root of the mean square is
// known at its end, and divides the sum.
@group(0) @binding(5) var<storage, read> norm: array<vec4<f32>>;  // [units * QUADS]
@group(0) @binding(6) var<uniform> params: Params;

const NORMED: bool = true;

fn taken(v: vec4<f32>, column: u32) -> vec4<f32> {
    return v * norm[column];
}

fn factor(squares: f32) -> f32 {
    return inverseSqrt(squares / f32(params.units * QUADS * 4u) + params.epsilon);
}
