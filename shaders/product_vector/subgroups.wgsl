// The product of one row of x, by subgroups: each sweeps four weight rows and sums across its
// lanes, without workgroup memory or a barrier. A workgroup computes four pairs: one sweep for each
// of two subgroups of 32.
//
// No size of subgroups is assumed, nor their threads. Subgroups of a workgroup are numbered from 0
// to num_subgroups - 1, so that each pair is computed by exactly one, however many there are. Lanes
// are counted instead of taken from subgroup_size, since a workgroup's last or only subgroup may be
// partly empty. All threads of a subgroup take the same path up to each sum: it depends on the
// workgroup, the subgroup and numbers read from buffers by all alike.
const PAIRS: u32 = 4u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) subgroups: u32,
) {
    let first = (group.y * groups.x + group.x) * PAIRS;
    if (first >= pairs() || group.z >= counts[0]) {
        return;
    }
    let lane = subgroupExclusiveAdd(1u);
    let lanes = subgroupAdd(1u);
    let end = min(first + PAIRS, pairs());
    for (var pair = first + 2u * subgroup; pair < end; pair += 2u * subgroups) {
        // A pair past the end repeats the last one; its sums are not written.
        let swept = sweep(rows_of(pair), rows_of(min(pair + 1u, end - 1u)), group.z, lane, lanes);
        var all = 0.0;
        if (NORMED) {
            all = subgroupAdd(swept.squares);
        }
        let total = subgroupAdd(swept.sums) * factor(all);
        if (lane == 0u) {
            put_pair(group.z, pair, total.xy);
        }
        // The last lane, possibly also the first.
        if (lane + 1u == lanes && pair + 1u < end) {
            put_pair(group.z, pair + 1u, total.zw);
        }
    }
}
