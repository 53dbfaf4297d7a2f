// Sum of a token's expert outputs, weighted by their scores: out (+)= Σ score · made, times a
// factor, and divided by the sum of the scores if normalised.
struct Params {
    quads: u32,       // of a row, columns / 4
    used: u32,        // experts of a token
    adds: u32,        // 1: added to what out holds
    normalised: u32,  // 1: divided by Σ score + ε
    epsilon: f32,
    scale: f32,
    spare_a: u32,
    spare_b: u32,
}

@group(0) @binding(0) var<storage, read> made: array<vec4<f32>>;       // [m, used, quads]
@group(0) @binding(1) var<storage, read> scores: array<f32>;           // [m, used]
@group(0) @binding(2) var<storage, read> counts: array<u32>;           // [1] m
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;  // [m, quads]
@group(0) @binding(4) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let i = (group.y * groups.x + group.x) * WORKGROUP + local;
    let token = i / params.quads;
    if (token >= counts[0]) {
        return;
    }
    let first = token * params.used;
    var sum = vec4<f32>(0.0);
    var total = params.epsilon;
    for (var choice = first; choice < first + params.used; choice++) {
        sum += scores[choice] * made[choice * params.quads + i % params.quads];
        total += scores[choice];
    }
    var factor = params.scale;
    if (params.normalised == 1u) {
        factor /= total;
    }
    if (params.adds == 1u) {
        out[i] += factor * sum;
    } else {
        out[i] = factor * sum;
    }
}
