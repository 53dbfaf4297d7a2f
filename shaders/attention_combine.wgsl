// The attention of a query out of what its chunks of keys left: each chunk's highest score,
// its sum of exponentials and its sum of values, both relative to that highest.
// One workgroup a head and token.
struct Params {
    heads: u32,
    quads: u32,     // head width / 4
    spare_a: u32,
    spare_b: u32,
}

@group(0) @binding(0) var<storage, read> partials: array<vec4<f32>>;   // [m, heads, chunks, quads + 1]
@group(0) @binding(1) var<storage, read> counts: array<u32>;           // [2] m, chunks
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;  // [m, heads, quads]
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const LOWEST: f32 = -3.0e38;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let quads = params.quads;
    let chunks = counts[1];
    if (group.y >= counts[0] || local >= quads) {
        return;
    }
    let item = group.y * params.heads + group.x;
    let first = item * chunks * (quads + 1u);
    var top = LOWEST;
    for (var i = 0u; i < chunks; i++) {
        top = max(top, partials[first + i * (quads + 1u) + quads].x);
    }
    var whole = vec4<f32>(0.0);
    var weight = 0.0;
    for (var i = 0u; i < chunks; i++) {
        let chunk = first + i * (quads + 1u);
        let its = partials[chunk + quads];
        let fade = exp(its.x - top);
        whole += fade * partials[chunk + local];
        weight += fade * its.y;
    }
    out[item * quads + local] = whole / weight;
}
