// A sweep of four weight rows with one row of x, by `lanes` threads that share their units. A quad
// of x is read once for four rows; with two it took up to 1.4 times as long on software adapters.
struct Swept {
    sums: vec4<f32>,  // of the weight rows
    squares: f32,     // of x
}

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

// The rows of two pairs of weight rows, from unit `lane` on every `lanes`-th.
fn sweep(near: vec2<u32>, far: vec2<u32>, x_row: u32, lane: u32, lanes: u32) -> Swept {
    let base = x_row * params.units * QUADS;
    var sum = vec4<f32>(0.0);
    var squared = 0.0;
    for (var unit = lane; unit < params.units; unit += lanes) {
        let units = Units(
            unit_at(near.x, unit),
            unit_at(near.y, unit),
            unit_at(far.x, unit),
            unit_at(far.y, unit),
        );
        let at = unit * QUADS;
        // Unrolled: a unit's quads are selected by constants.
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
    return Swept(sum, squared);
}
