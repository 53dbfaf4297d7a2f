// A sweep of four weight rows with four rows of x, by `lanes` threads that share their units: each
// number read and dequantised is used four times. With two weight rows it took 1.2 to 1.5 times as
// long on software adapters.
const BLOCK: u32 = 4u;

// The sums of four rows of x with each of four weight rows.
struct Sums {
    a: vec4<f32>,
    b: vec4<f32>,
    c: vec4<f32>,
    d: vec4<f32>,
}

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

// The rows of two pairs of weight rows with four rows of x; from unit `lane` on every `lanes`-th.
fn sweep(near: vec2<u32>, far: vec2<u32>, x_rows: vec4<u32>, lane: u32, lanes: u32) -> Sums {
    let base = x_rows * params.units * QUADS;
    var sums = Sums(vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0), vec4<f32>(0.0));
    for (var unit = lane; unit < params.units; unit += lanes) {
        let a = unit_at(near.x, unit);
        let b = unit_at(near.y, unit);
        let c = unit_at(far.x, unit);
        let d = unit_at(far.y, unit);
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
    return sums;
}
