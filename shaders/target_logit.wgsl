// The raw logit of each row's target: one row of the output matrix each, for any size of
// vocabulary. An item is a row of x; a matrix in several parts takes one dispatch for each.
struct Params {
    rows: u32,        // vocabulary rows of this part
    units: u32,       // units in a weight row
    plane1_offset: u32,  // word offset of the second plane
    begin: u32,       // first vocabulary row of this part
    vocabulary: u32,
    has_bias: u32,
    softcap: f32,     // logits become softcap · tanh(logit / softcap); 0: off
    spare: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [m, units * QUADS]
// [rows, units], then other planes
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;             // [vocabulary]
@group(0) @binding(3) var<storage, read> counts: array<u32>;           // [1] m
@group(0) @binding(4) var<storage, read> targets: array<u32>;          // [m]
@group(0) @binding(5) var<storage, read_write> out: array<f32>;        // [m]
@group(0) @binding(6) var<uniform> params: Params;

const LOWEST: f32 = -3.0e38;

// `at` is the item's position in a grid that is `across` wide.
fn make(at: vec3<u32>, across: u32, local: u32) {
    let x_row = at.y * across + at.x;
    if (x_row >= counts[0]) {
        return;
    }
    let id = targets[x_row];
    if (id >= params.vocabulary) {
        if (local == 0u) {
            out[x_row] = LOWEST;
        }
        return;
    }
    if (id < params.begin || id - params.begin >= params.rows) {
        return;
    }
    let base = x_row * params.units * QUADS;
    var sum = 0.0;
    for (var unit = local; unit < params.units; unit += THREADS) {
        let row = unit_at(id - params.begin, unit);
        for (var q = 0u; q < QUADS; q++) {
            sum += dot(quad(row, q), x[base + unit * QUADS + q]);
        }
    }
    sum = sum_of_all(sum, local);
    if (local == 0u) {
        if (params.has_bias == 1u) {
            sum += bias[id];
        }
        // NaN and ±∞ stay: a driver's clamp may make numbers of them.
        if (params.softcap > 0.0 && (bitcast<u32>(sum) & 0x7f800000u) != 0x7f800000u) {
            // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
            sum = params.softcap * tanh(clamp(sum / params.softcap, -10.0, 10.0));
        }
        out[x_row] = sum;
    }
}
