// The product of one row of x, without barriers: each thread sweeps two pairs of weight rows.
const PAIRS: u32 = 16u;  // of a workgroup

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let pair = (group.y * groups.x + group.x) * PAIRS + 2u * local;
    if (pair >= pairs() || group.z >= counts[0]) {
        return;
    }
    let both = pair + 1u < pairs();
    let near = rows_of(pair);
    let swept = sweep(near, rows_of(select(pair, pair + 1u, both)), group.z, 0u, 1u);
    let sums = swept.sums * factor(swept.squares);
    put_pair(group.z, pair, sums.xy);
    if (both) {
        put_pair(group.z, pair + 1u, sums.zw);
    }
}
