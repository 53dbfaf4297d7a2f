// The products of experts, choice by choice, without barriers: each thread sweeps two pairs of
// weight rows.
@group(0) @binding(3) var<storage, read> counts: array<u32>;  // [1] tokens

const PAIRS: u32 = 16u;  // of a workgroup

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let pair = (group.y * groups.x + group.x) * PAIRS + 2u * local;
    let choice = group.z;
    if (pair >= pairs() || choice >= counts[0] * params.used) {
        return;
    }
    let expert = chosen[choice];
    if (!is_here(expert)) {
        return;
    }
    let both = pair + 1u < pairs();
    let near = rows_of(expert, pair);
    let far = rows_of(expert, select(pair, pair + 1u, both));
    let sums = sweep(near, far, choice / params.each, 0u, 1u).sums;
    put_pair(choice, expert, pair, sums.xy);
    if (both) {
        put_pair(choice, expert, pair + 1u, sums.zw);
    }
}
