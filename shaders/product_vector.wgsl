// The product of one row of x: it is limited by the bytes of W. Sixteen lanes sweep four
// weight rows, a unit each at a time, so that a quad of x is read once for four; with two
// weight rows it took up to 1.4 times as long on software adapters. A workgroup makes eight pairs.
const WORKGROUP: u32 = 64u;
const LANES: u32 = 16u;
const PAIRS: u32 = 8u;

// Of each lane: the sums of its weight rows, and of the squares of x.
var<workgroup> partial: array<vec4<f32>, 64>;
var<workgroup> squares: array<f32, 64>;

// Four units of as many weight rows.
struct Units {
    a: Unit,
    b: Unit,
    c: Unit,
    d: Unit,
}

fn multiply(units: Units, t: vec4<f32>, q: u32) -> vec4<f32> {
    return vec4<f32>(
        dot(quad(units.a, q), t),
        dot(quad(units.b, q), t),
        dot(quad(units.c, q), t),
        dot(quad(units.d, q), t),
    );
}

fn square(v: vec4<f32>) -> f32 {
    if (NORMED) {
        return dot(v, v);
    }
    return 0.0;
}

@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (group.y * groups.x + group.x) * PAIRS;
    if (first >= pairs() || group.z >= counts[0]) {
        return;
    }
    let lane = local % LANES;
    let mine = first + local / LANES * 2u;
    // Pairs past the end repeat the last one; their sums are not written.
    let near = rows_of(min(mine, pairs() - 1u));
    let far = rows_of(min(mine + 1u, pairs() - 1u));
    let base = group.z * params.units * QUADS;

    var sum = vec4<f32>(0.0);
    var squared = 0.0;
    for (var unit = lane; unit < params.units; unit += LANES) {
        let units = Units(
            unit_at(near.x, unit),
            unit_at(near.y, unit),
            unit_at(far.x, unit),
            unit_at(far.y, unit),
        );
        let at = unit * QUADS;
        // No loop: a unit's quads are picked by constants.
        let v0 = x[base + at];
        sum += multiply(units, taken(v0, at), 0u);
        squared += square(v0);
        if (QUADS > 1u) {
            let v1 = x[base + at + 1u];
            sum += multiply(units, taken(v1, at + 1u), 1u);
            squared += square(v1);
        }
        if (QUADS > 2u) {
            let v2 = x[base + at + 2u];
            let v3 = x[base + at + 3u];
            sum += multiply(units, taken(v2, at + 2u), 2u);
            sum += multiply(units, taken(v3, at + 3u), 3u);
            squared += square(v2) + square(v3);
        }
        if (QUADS > 4u) {
            let v4 = x[base + at + 4u];
            let v5 = x[base + at + 5u];
            let v6 = x[base + at + 6u];
            let v7 = x[base + at + 7u];
            sum += multiply(units, taken(v4, at + 4u), 4u);
            sum += multiply(units, taken(v5, at + 5u), 5u);
            sum += multiply(units, taken(v6, at + 6u), 6u);
            sum += multiply(units, taken(v7, at + 7u), 7u);
            squared += (square(v4) + square(v5)) + (square(v6) + square(v7));
        }
    }
    partial[local] = sum;
    squares[local] = squared;
    workgroupBarrier();

    let pair = first + local;
    if (local < PAIRS && pair < pairs()) {
        let from_lane = local / 2u * LANES;
        let second = (local & 1u) == 1u;
        var total = vec2<f32>(0.0);
        var all = 0.0;
        for (var i = 0u; i < LANES; i++) {
            let four = partial[from_lane + i];
            total += select(four.xy, four.zw, second);
            all += squares[from_lane + i];
        }
        put_pair(group.z, pair, total * factor(all));
    }
}
