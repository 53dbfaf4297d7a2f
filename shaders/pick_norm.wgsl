// The rows of a pass whose logits are wanted, after the last norm: out[i] = norm(x[picks[i]]). An
// item is a row of out; a pick past the end takes the last row.
struct Params {
    rows: u32,     // rows of x
    quads: u32,    // width / 4
    epsilon: f32,
    spare: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [rows, quads]
@group(0) @binding(1) var<storage, read> picks: array<u32>;            // [m]
@group(0) @binding(2) var<storage, read> weight: array<vec4<f32>>;     // [quads]
@group(0) @binding(3) var<storage, read> counts: array<u32>;           // [1] m
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;  // [m, quads]
@group(0) @binding(5) var<uniform> params: Params;

// `at` is the item's position in a grid that is `across` wide.
fn make(at: vec3<u32>, across: u32, local: u32) {
    let row = at.y * across + at.x;
    if (row >= counts[0]) {
        return;
    }
    let from_row = min(picks[row], params.rows - 1u) * params.quads;
    let factor = row_factor(from_row, local);
    for (var i = local; i < params.quads; i += THREADS) {
        out[row * params.quads + i] = x[from_row + i] * factor * weight[i];
    }
}
