// Weights in Q4_K: blocks of 256 nibbles; each 32 have a scale and a minimum of 6 bits,
// which a block's two f16 multiply: weight = d · scale · nibble − e · minimum.
// A unit is 16 bytes of a row: one such 32, eight quads, its nibbles as in Q4_0. The second
// plane has 16 bytes a block: d, e and the packed scales and minimums.
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    scale: f32,
    minimum: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let header = weights[(params.behind >> 2u) + (at >> 3u)];
    // Of eight groups, byte g of y and z has scale and minimum of group g < 4 in its low six
    // bits. Those of group 4 + g are byte g of w, half each, and the two bits left above.
    let group = at & 7u;
    let packed = header.yzw >> vec3<u32>((group & 3u) * 8u);
    var six_bits = packed.xy & vec2<u32>(63u);
    if (group > 3u) {
        six_bits = (vec2<u32>(packed.z, packed.z >> 4u) & vec2<u32>(15u))
            | ((packed.xy >> vec2<u32>(2u)) & vec2<u32>(48u));
    }
    let factors = unpack2x16float(header.x) * vec2<f32>(six_bits);
    return Unit(weights[at], factors.x, factors.y);
}

// The four weights of quad q.
fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return bytes(nibbles(unit.quants, q)) * unit.scale - unit.minimum;
}
