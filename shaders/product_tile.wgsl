// The product of many rows of x: a workgroup makes 32 rows of 16 pairs, four rows of two
// pairs a thread. Tiles of x and of the weights pass through workgroup memory, 32 columns
// at a time, so that a number is read and dequantised once for 32 uses.
const WORKGROUP: u32 = 64u;
const TILE: u32 = 32u;       // rows of x, and weight rows
const PAIRS: u32 = 16u;
const COLUMNS: u32 = 8u;     // columns of a step, in quads
const SHARE: u32 = 4u;       // quads of a row that a thread brings

// [COLUMNS, TILE]: neighbouring threads read neighbouring quads.
var<workgroup> tile_x: array<vec4<f32>, 256>;
var<workgroup> tile_w: array<vec4<f32>, 256>;

// Dot products of one quad of a weight row with those of four rows of x.
fn dots(w: vec4<f32>, x0: vec4<f32>, x1: vec4<f32>, x2: vec4<f32>, x3: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(dot(w, x0), dot(w, x1), dot(w, x2), dot(w, x3));
}

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
    // What a thread brings: half a row's columns, of x and of the weights.
    let row = local / 2u;
    let share = local % 2u * SHARE;
    let quads = params.units * QUADS;
    let x_at = min(top + row, m - 1u) * quads;
    let w_row = rows_of(min(first + row % PAIRS, pairs() - 1u))[row / PAIRS];

    // What a thread makes: rows 8i + down of x with weight rows 8j + across.
    let across = local % 8u;
    let down = local / 8u;
    var a = vec4<f32>(0.0);
    var b = vec4<f32>(0.0);
    var c = vec4<f32>(0.0);
    var d = vec4<f32>(0.0);
    for (var step = 0u; step < quads; step += COLUMNS) {
        let column = step + share;
        for (var i = 0u; i < SHARE; i++) {
            var v = vec4<f32>(0.0);
            if (column + i < quads) {
                v = x[x_at + column + i];
            }
            tile_x[(share + i) * TILE + row] = v;
        }
        for (var i = 0u; i < SHARE; i += min(QUADS, SHARE)) {
            let in_row = column + i < quads;
            let unit = unit_at(w_row, select(0u, (column + i) / QUADS, in_row));
            for (var q = 0u; q < min(QUADS, SHARE); q++) {
                var v = vec4<f32>(0.0);
                if (in_row) {
                    v = quad(unit, (column + i) % QUADS + q);
                }
                tile_w[(share + i + q) * TILE + row] = v;
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < COLUMNS; i++) {
            let xs = i * TILE + down;
            let x0 = tile_x[xs];
            let x1 = tile_x[xs + 8u];
            let x2 = tile_x[xs + 16u];
            let x3 = tile_x[xs + 24u];
            let ws = i * TILE + across;
            a += dots(tile_w[ws], x0, x1, x2, x3);
            b += dots(tile_w[ws + 8u], x0, x1, x2, x3);
            c += dots(tile_w[ws + 16u], x0, x1, x2, x3);
            d += dots(tile_w[ws + 24u], x0, x1, x2, x3);
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < 4u; i++) {
        let x_row = top + 8u * i + down;
        if (x_row < m) {
            if (first + across < pairs()) {
                put_pair(x_row, first + across, vec2<f32>(a[i], c[i]));
            }
            if (first + across + 8u < pairs()) {
                put_pair(x_row, first + across + 8u, vec2<f32>(b[i], d[i]));
            }
        }
    }
}
