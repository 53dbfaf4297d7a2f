// Shared by the products of a pass: out = in(x) · Wᵀ (+ bias), overwriting or added to `out`.
// Weight rows are taken in pairs, defined and written by the output's piece: neighbours, or the
// gate and up rows of one output.
struct Params {
    rows: u32,       // weight rows of this part
    units: u32,      // units in a weight row
    plane1_offset: u32,  // word offset of the second plane
    begin: u32,      // output column of this part's first row
    n: u32,          // columns of out
    has_bias: u32,
    adds: u32,       // 1: added to what out holds
    gelu: u32,       // gated: 0: SiLU; 1: GELU
    epsilon: f32,    // normed: of the norm
    softcap: f32,    // scored: logits become softcap · tanh(logit / softcap); 0: off
    first_tile: u32, // scored: tiles of the parts before
    tiles: u32,      // scored: tiles of all parts
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [m, units * QUADS]
// [rows, units], then other planes
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;             // [weight rows of all parts]
@group(0) @binding(3) var<storage, read> counts: array<u32>;           // [1] m, the rows of x
@group(0) @binding(4) var<storage, read_write> out: array<f32>;        // [m, n]

// Writes a number, or adds it.
fn put(x_row: u32, column: u32, value: f32) {
    let at = x_row * params.n + column;
    if (params.adds == 1u) {
        out[at] += value;
    } else {
        out[at] = value;
    }
}
