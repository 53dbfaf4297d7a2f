// The output product without storing its logits: keeps only the largest logit of a tile of
// vocabulary rows and the sum of exponentials relative to it, for `score_combine` to join, and the
// logit of a row's target, where it is in the tile.
@group(0) @binding(5) var<storage, read> targets: array<u32>;  // [m]
@group(0) @binding(6) var<uniform> params: Params;

const WORKGROUP: u32 = 64u;
const LOWEST: f32 = -3.0e38;
// Stands for a logit of NaN or +∞: being the largest, it reaches `score_combine`.
const BROKEN: f32 = 3.3e38;

// For each row of x and each thread across: the largest logit, the sum relative to it.
var<workgroup> parts: array<vec2<f32>, 256>;

// By its bits: drivers differ in comparing and clamping NaN.
fn is_broken(logit: f32) -> bool {
    let bits = bitcast<u32>(logit);
    return (bits & 0x7fffffffu) > 0x7f800000u || bits == 0x7f800000u;
}

fn capped(logit: f32) -> f32 {
    if (is_broken(logit)) {
        return BROKEN;
    }
    if (params.softcap > 0.0) {
        // tanh is 1 in f32 from 10 on; some drivers make it NaN far out.
        return params.softcap * tanh(clamp(logit / params.softcap, -10.0, 10.0));
    }
    return logit;
}

// The logit of weight row `row` of this part for row x_row of x. For each row of x, `out` has two
// numbers for each tile, followed by the target's logit.
fn logit(x_row: u32, row: u32, product: f32, m: u32) -> f32 {
    if (row >= params.rows) {
        return LOWEST;
    }
    let column = params.begin + row;
    var value = product;
    if (params.has_bias == 1u) {
        value += bias[column];
    }
    value = capped(value);
    if (x_row < m && targets[min(x_row, m - 1u)] == column) {
        put(x_row, 2u * params.tiles, value);
    }
    return value;
}

fn joined(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let top = max(a.x, b.x);
    return vec2<f32>(top, a.y * exp(a.x - top) + b.y * exp(b.x - top));
}

// The largest and the sum of eight logits, ignoring rows past the end.
fn gathered(l: vec4<f32>, k: vec4<f32>) -> vec2<f32> {
    let most = max(l, k);
    let top = max(max(most.x, most.y), max(most.z, most.w));
    let all = exp(l - top) * vec4<f32>(l > vec4<f32>(LOWEST)) + exp(k - top) * vec4<f32>(k > vec4<f32>(LOWEST));
    return vec2<f32>(top, dot(all, vec4<f32>(1.0)));
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let index = group.y * groups.x + group.x;
    let first = index * PAIRS;
    let m = counts[0];
    let top = group.z * TILE;
    if (first >= pairs() || top >= m) {
        return;
    }
    let sums = tile(first, top, m, local);
    for (var i = 0u; i < 4u; i++) {
        let row = 8u * i + sums.down;
        let x_row = top + row;
        let w_row = 2u * (first + sums.across);
        let one = vec4<f32>(
            logit(x_row, w_row, sums.a[i], m),
            logit(x_row, w_row + 16u, sums.b[i], m),
            logit(x_row, w_row + 32u, sums.c[i], m),
            logit(x_row, w_row + 48u, sums.d[i], m),
        );
        let other = vec4<f32>(
            logit(x_row, w_row + 1u, sums.e[i], m),
            logit(x_row, w_row + 17u, sums.f[i], m),
            logit(x_row, w_row + 33u, sums.g[i], m),
            logit(x_row, w_row + 49u, sums.h[i], m),
        );
        parts[row * 8u + sums.across] = gathered(one, other);
    }
    workgroupBarrier();
    let x_row = top + local;
    if (local < TILE && x_row < m) {
        var whole = parts[local * 8u];
        for (var i = 1u; i < 8u; i++) {
            whole = joined(whole, parts[local * 8u + i]);
        }
        let column = 2u * (params.first_tile + index);
        put(x_row, column, whole.x);
        put(x_row, column + 1u, whole.y);
    }
}
