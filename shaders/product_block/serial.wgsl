// The product of several rows of x, without barriers: each thread sweeps two pairs of weight rows
// with four rows of x.
const PAIRS: u32 = 16u;  // of a workgroup

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let pair = (group.y * groups.x + group.x) * PAIRS + 2u * local;
    let m = counts[0];
    let top = group.z * BLOCK;
    if (pair >= pairs() || top >= m) {
        return;
    }
    let both = pair + 1u < pairs();
    let near = rows_of(pair);
    // Rows of x past the end repeat the last one.
    let x_rows = min(vec4<u32>(top) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(m - 1u));
    let sums = sweep(near, rows_of(select(pair, pair + 1u, both)), x_rows, 0u, 1u);
    for (var i = 0u; i < min(BLOCK, m - top); i++) {
        put_pair(top + i, pair, vec2<f32>(sums.a[i], sums.b[i]));
        if (both) {
            put_pair(top + i, pair + 1u, vec2<f32>(sums.c[i], sums.d[i]));
        }
    }
}
