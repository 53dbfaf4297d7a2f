// A tile of a product: 32 rows of x with 32 pairs of weight rows, by 64 threads, each of which
// computes four rows of four pairs. Both pass through workgroup memory, 32 columns at a time, so
// that a number is read and dequantised once for 32 uses. With half as many pairs it took 1.3 times
// as long or more on software adapters.
const TILE: u32 = 32u;       // rows of x
const PAIRS: u32 = 32u;      // of weight rows
const COLUMNS: u32 = 8u;     // columns of a step, in quads
const SHARE: u32 = 4u;       // quads of a row that a thread brings

// Columns first: neighbouring threads read neighbouring quads.
var<workgroup> tile_x: array<vec4<f32>, 256>;  // [COLUMNS, TILE]
var<workgroup> tile_w: array<vec4<f32>, 512>;  // [COLUMNS, 2, PAIRS]

// Sums of rows 8i + down of x, i in 0..4, with pairs 8j + across of weight rows, j in 0..4: a to d
// for the first weight rows, e to h for the second.
struct Tile {
    across: u32,
    down: u32,
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
    e: vec4<f32>,
    f: vec4<f32>,
    g: vec4<f32>,
    h: vec4<f32>,
}

// Dot products of one quad of a weight row with those of four rows of x.
fn dots(w: vec4<f32>, x0: vec4<f32>, x1: vec4<f32>, x2: vec4<f32>, x3: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(dot(w, x0), dot(w, x1), dot(w, x2), dot(w, x3));
}

// The tile of rows `top`.. of m rows of x and of pairs `first`.. . Rows and pairs past the end
// repeat the last one.
fn tile(first: u32, top: u32, m: u32, local: u32) -> Tile {
    // A thread loads half the columns of a row of x and of a pair.
    let row = local / 2u;
    let share = local % 2u * SHARE;
    let quads = params.units * QUADS;
    let x_at = min(top + row, m - 1u) * quads;
    let w_rows = rows_of(min(first + row, pairs() - 1u));

    let across = local % 8u;
    let down = local / 8u;
    var a = vec4<f32>(0.0);
    var b = vec4<f32>(0.0);
    var c = vec4<f32>(0.0);
    var d = vec4<f32>(0.0);
    var e = vec4<f32>(0.0);
    var f = vec4<f32>(0.0);
    var g = vec4<f32>(0.0);
    var h = vec4<f32>(0.0);
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
            let at = select(0u, (column + i) / QUADS, in_row);
            let ua = unit_at(w_rows.x, at);
            let ub = unit_at(w_rows.y, at);
            for (var q = 0u; q < min(QUADS, SHARE); q++) {
                var v = vec4<f32>(0.0);
                var u = vec4<f32>(0.0);
                if (in_row) {
                    v = quad(ua, (column + i) % QUADS + q);
                    u = quad(ub, (column + i) % QUADS + q);
                }
                tile_w[(share + i + q) * 2u * PAIRS + row] = v;
                tile_w[(share + i + q) * 2u * PAIRS + PAIRS + row] = u;
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < COLUMNS; i++) {
            let xs = i * TILE + down;
            let x0 = tile_x[xs];
            let x1 = tile_x[xs + 8u];
            let x2 = tile_x[xs + 16u];
            let x3 = tile_x[xs + 24u];
            let ws = i * 2u * PAIRS + across;
            a += dots(tile_w[ws], x0, x1, x2, x3);
            b += dots(tile_w[ws + 8u], x0, x1, x2, x3);
            c += dots(tile_w[ws + 16u], x0, x1, x2, x3);
            d += dots(tile_w[ws + 24u], x0, x1, x2, x3);
            e += dots(tile_w[ws + 32u], x0, x1, x2, x3);
            f += dots(tile_w[ws + 40u], x0, x1, x2, x3);
            g += dots(tile_w[ws + 48u], x0, x1, x2, x3);
            h += dots(tile_w[ws + 56u], x0, x1, x2, x3);
        }
        workgroupBarrier();
    }
    return Tile(across, down, a, b, c, d, e, f, g, h);
}
