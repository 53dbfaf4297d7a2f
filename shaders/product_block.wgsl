// The product of several rows of x. Sixteen lanes sweep four weight rows, a unit each at a
// time, for four rows of x: of what a lane reads and dequantises, each number is used four
// times. With two weight rows it took 1.2 to 1.5 times as long on software adapters.
// A workgroup makes eight pairs of four rows.
const WORKGROUP: u32 = 64u;
const LANES: u32 = 16u;
const PAIRS: u32 = 8u;
const BLOCK: u32 = 4u;

// The sums of four rows of x with each of four weight rows.
struct Sums {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

var<workgroup> partial: array<vec4<f32>, 256>;  // [weight row of a lane, WORKGROUP]

fn dots(w: vec4<f32>, x0: vec4<f32>, x1: vec4<f32>, x2: vec4<f32>, x3: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(dot(w, x0), dot(w, x1), dot(w, x2), dot(w, x3));
}

fn multiply(s: Sums, a: Unit, b: Unit, c: Unit, d: Unit, at: vec4<u32>, q: u32) -> Sums {
    let x0 = x[at.x + q];
    let x1 = x[at.y + q];
    let x2 = x[at.z + q];
    let x3 = x[at.w + q];
    return Sums(
        s.a + dots(quad(a, q), x0, x1, x2, x3),
        s.b + dots(quad(b, q), x0, x1, x2, x3),
        s.c + dots(quad(c, q), x0, x1, x2, x3),
        s.d + dots(quad(d, q), x0, x1, x2, x3),
    );
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * groups.x + group.x) * PAIRS;
    let m = counts[0];
    let top = group.z * BLOCK;
    if (first >= pairs() || top >= m) {
        return;
    }
    let lane = local % LANES;
    let mine = first + local / LANES * 2u;
    // Pairs and rows of x past the end repeat the last one; their sums are not written.
    let rows_a = rows_of(min(mine, pairs() - 1u));
    let rows_b = rows_of(min(mine + 1u, pairs() - 1u));
    let base = min(vec4<u32>(top) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(m - 1u))
        * params.units * QUADS;

    var sums = Sums(vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
    for (var unit = lane; unit < params.units; unit += LANES) {
        let a = unit_at(rows_a.x, unit);
        let b = unit_at(rows_a.y, unit);
        let c = unit_at(rows_b.x, unit);
        let d = unit_at(rows_b.y, unit);
        let at = base + unit * QUADS;
        sums = multiply(sums, a, b, c, d, at, 0u);
        if (QUADS > 1u) {
            sums = multiply(sums, a, b, c, d, at, 1u);
        }
        if (QUADS > 2u) {
            sums = multiply(sums, a, b, c, d, at, 2u);
            sums = multiply(sums, a, b, c, d, at, 3u);
        }
        if (QUADS > 4u) {
            sums = multiply(sums, a, b, c, d, at, 4u);
            sums = multiply(sums, a, b, c, d, at, 5u);
            sums = multiply(sums, a, b, c, d, at, 6u);
            sums = multiply(sums, a, b, c, d, at, 7u);
        }
    }
    partial[local] = sums.a;
    partial[WORKGROUP + local] = sums.b;
    partial[2u * WORKGROUP + local] = sums.c;
    partial[3u * WORKGROUP + local] = sums.d;
    workgroupBarrier();

    let pair = first + local / BLOCK;
    let row = local % BLOCK;
    if (local < PAIRS * BLOCK && pair < pairs() && top + row < m) {
        let of_lane = local / BLOCK;
        let from_lane = of_lane / 2u * LANES + of_lane % 2u * 2u * WORKGROUP;
        var total = vec2<f32>(0.0);
        for (var i = 0u; i < LANES; i++) {
            total += vec2<f32>(partial[from_lane + i][row], partial[from_lane + WORKGROUP + i][row]);
        }
        put_pair(top + row, pair, total);
    }
}
