// The products of experts, choice by choice, by subgroups: each sweeps four weight rows and sums
// across its lanes, with the assumptions of product_vector/subgroups.wgsl. A workgroup computes
// four pairs.
@group(0) @binding(3) var<storage, read> counts: array<u32>;  // [1] tokens

const PAIRS: u32 = 4u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
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
    let lane = subgroupExclusiveAdd(1u);
    let lanes = subgroupAdd(1u);
    let end = min(first + PAIRS, pairs());
    for (var pair = first + 2u * subgroup; pair < end; pair += 2u * subgroups) {
        // A pair past the end repeats the last one; its sums are not written.
        let near = rows_of(expert, pair);
        let far = rows_of(expert, min(pair + 1u, end - 1u));
        let swept = sweep(near, far, choice / params.each, lane, lanes);
        let total = subgroupAdd(swept.sums);
        if (lane == 0u) {
            put_pair(choice, expert, pair, total.xy);
        }
        // The last lane, possibly also the first.
        if (lane + 1u == lanes && pair + 1u < end) {
            put_pair(choice, expert, pair + 1u, total.zw);
        }
    }
}
