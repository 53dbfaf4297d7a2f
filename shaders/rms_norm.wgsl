// y = x / sqrt(mean(x²) + ε) · weight, row by row. An item is a row.
struct Params {
    rows: u32,
    quads: u32,    // width / 4
    epsilon: f32,
    spare: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [rows, quads]
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;     // [quads]
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;  // [rows, quads]
@group(0) @binding(3) var<uniform> params: Params;

// `at` is the item's position in a grid that is `across` wide.
fn make(at: vec3<u32>, across: u32, local: u32) {
    let row = at.y * across + at.x;
    if (row >= params.rows) {
        return;
    }
    let base = row * params.quads;
    let factor = row_factor(base, local);
    for (var i = local; i < params.quads; i += THREADS) {
        out[base + i] = x[base + i] * factor * weight[i];
    }
}
