// What the products share: out = x · Wᵀ (+ bias) (+ residual). Sixteen lanes of a workgroup
// sweep two weight rows, a unit each at a time, so that a quad of x is read once for both.
struct Params {
    m: u32,            // rows of x
    rows: u32,         // weight rows (outputs) of this part
    units: u32,        // units in a weight row
    behind: u32,       // where the second plane starts, in words
    begin: u32,        // output column of this part's first row
    n: u32,            // columns of out
    has_bias: u32,
    residual: u32,     // 0: none; 1: from `residual`; 2: what `out` holds
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [m, units * QUADS]
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;    // [rows, units], then other planes
@group(0) @binding(2) var<storage, read> bias: array<f32>;             // [n]
@group(0) @binding(3) var<storage, read> residual: array<f32>;         // [m, n]
@group(0) @binding(4) var<storage, read_write> out: array<f32>;        // [m, n]
@group(0) @binding(5) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const LANES: u32 = 16u;
const OUTPUTS: u32 = 8u;

// Write the product of a row of x with weight row `row` of this part.
fn put(x_row: u32, row: u32, product: f32) {
    let column = params.begin + row;
    let at = x_row * params.n + column;
    var value = product;
    if (params.has_bias == 1u) {
        value += bias[column];
    }
    if (params.residual == 1u) {
        value += residual[at];
    } else if (params.residual == 2u) {
        value += out[at];
    }
    out[at] = value;
}
