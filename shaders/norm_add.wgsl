// A norm after a product: out = (out + x / sqrt(mean(x²) + ε) · weight) · scale. An item is a row.
struct Params {
    quads: u32,    // width / 4
    epsilon: f32,
    each: u32,     // rows for each that is counted
    scaled: u32,   // 0: the sum stays
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;          // [m, each, quads]
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;     // [quads]
@group(0) @binding(2) var<storage, read> counts: array<u32>;           // [1] m
@group(0) @binding(3) var<storage, read> scale: array<f32>;            // [1]
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;  // [m, each, quads]
@group(0) @binding(5) var<uniform> params: Params;

// `at` is the item's position in a grid that is `across` wide.
fn make(at: vec3<u32>, across: u32, local: u32) {
    let row = at.y * across + at.x;
    if (row >= counts[0] * params.each) {
        return;
    }
    let base = row * params.quads;
    let factor = row_factor(base, local);
    let whole = select(1.0, scale[0], params.scaled == 1u);
    for (var i = local; i < params.quads; i += THREADS) {
        out[base + i] = (out[base + i] + x[base + i] * factor * weight[i]) * whole;
    }
}
