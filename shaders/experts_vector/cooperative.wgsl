// The products of experts, choice by choice. Sixteen lanes sweep four weight rows; a workgroup
// computes eight pairs.
@group(0) @binding(3) var<storage, read> counts: array<u32>;  // [1] tokens

const LANES: u32 = 16u;
const PAIRS: u32 = 8u;

var<workgroup> partial: array<vec4<f32>, 64>;  // of each lane, the sums of its weight rows

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * groups.x + group.x) * PAIRS;
    let choice = group.z;
    if (first >= pairs() || choice >= counts[0] * params.used) {
        return;
    }
    let expert = chosen[choice];
    if (!is_here(expert)) {
        return;
    }
    let mine = first + local / LANES * 2u;
    // Pairs past the end repeat the last one; their sums are not written.
    let near = rows_of(expert, min(mine, pairs() - 1u));
    let far = rows_of(expert, min(mine + 1u, pairs() - 1u));
    partial[local] = sweep(near, far, choice / params.each, local % LANES, LANES).sums;
    workgroupBarrier();

    let pair = first + local;
    if (local < PAIRS && pair < pairs()) {
        let from_lane = local / 2u * LANES;
        let second = (local & 1u) == 1u;
        var total = vec2<f32>(0.0);
        for (var i = 0u; i < LANES; i++) {
            let four = partial[from_lane + i];
            total += select(four.xy, four.zw, second);
        }
        put_pair(choice, expert, pair, total);
    }
}
