// Move rows src..src+count of both caches to dst.., where dst ≤ src. A thread owns one column
// of two words and goes through the rows upwards: overlapping moves need no scratch.
struct Params {
    pairs: u32,   // words in a row / 2
    src: u32,
    dst: u32,
    count: u32,
}

@group(0) @binding(0) var<storage, read_write> keys: array<vec2<u32>>;    // [capacity, pairs]
@group(0) @binding(1) var<storage, read_write> values: array<vec2<u32>>;  // [capacity, pairs]
@group(0) @binding(2) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let column = (group.y * groups.x + group.x) * WORKGROUP + local;
    if (column >= params.pairs) {
        return;
    }
    for (var i = 0u; i < params.count; i++) {
        let into = (params.dst + i) * params.pairs + column;
        let at = (params.src + i) * params.pairs + column;
        keys[into] = keys[at];
        values[into] = values[at];
    }
}
