// Token ids to rows of the embedding matrix, times one factor. A thread dequantises one unit. A
// matrix in several parts takes one dispatch for each; the dispatch with `first` set also writes
// zeros for ids in no part.
struct Params {
    tokens: u32,
    units: u32,   // units in a weight row
    plane1_offset: u32,  // word offset of the second plane
    begin: u32,   // first vocabulary row of this part
    rows: u32,    // vocabulary rows in this part
    vocabulary: u32,
    first: u32,
    factor: f32,
}

@group(0) @binding(0) var<storage, read> ids: array<u32>;                  // [tokens]
// [rows, units], then other planes
@group(0) @binding(1) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;  // [tokens, units * QUADS]
@group(0) @binding(3) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let item = (group.y * groups.x + group.x) * WORKGROUP + local;
    if (item >= params.tokens * params.units) {
        return;
    }
    let token = item / params.units;
    let unit = item % params.units;
    let id = ids[token];
    let at = item * QUADS;
    if (id >= params.vocabulary) {
        if (params.first == 1u) {
            for (var q = 0u; q < QUADS; q++) {
                out[at + q] = vec4<f32>(0.0);
            }
        }
        return;
    }
    if (id < params.begin || id - params.begin >= params.rows) {
        return;
    }
    let row = id - params.begin;
    let weights_of_unit = unit_at(row, unit);
    for (var q = 0u; q < QUADS; q++) {
        out[at + q] = quad(weights_of_unit, q) * params.factor;
    }
}
