// Joins the chunks of a query's attention. One workgroup for each head and token.
struct Params {
    heads: u32,
    quads: u32,     // head width / 4
    spare_a: u32,
    spare_b: u32,
}

// [m, heads, chunks, quads + 1]
@group(0) @binding(0) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> counts: array<u32>;           // [2] m, chunks
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;  // [m, heads, quads]
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let quads = params.quads;
    let chunks = counts[1];
    if (group.y >= counts[0]) {
        return;
    }
    let item = group.y * params.heads + group.x;
    for (var i = local; i < quads; i += WORKGROUP) {
        out[item * quads + i] = joined(item * chunks * (quads + 1u), chunks, quads, i);
    }
}
