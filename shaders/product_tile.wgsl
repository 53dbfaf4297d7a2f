// The product of many rows of x, a tile for each workgroup.
const WORKGROUP: u32 = 64u;

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * groups.x + group.x) * PAIRS;
    let m = counts[0];
    let top = group.z * TILE;
    if (first >= pairs() || top >= m) {
        return;
    }
    let sums = tile(first, top, m, local);
    for (var i = 0u; i < 4u; i++) {
        let x_row = top + 8u * i + sums.down;
        if (x_row < m) {
            let pair = first + sums.across;
            if (pair < pairs()) {
                put_pair(x_row, pair, vec2<f32>(sums.a[i], sums.e[i]));
            }
            if (pair + 8u < pairs()) {
                put_pair(x_row, pair + 8u, vec2<f32>(sums.b[i], sums.f[i]));
            }
            if (pair + 16u < pairs()) {
                put_pair(x_row, pair + 16u, vec2<f32>(sums.c[i], sums.g[i]));
            }
            if (pair + 24u < pairs()) {
                put_pair(x_row, pair + 24u, vec2<f32>(sums.d[i], sums.h[i]));
            }
        }
    }
}
