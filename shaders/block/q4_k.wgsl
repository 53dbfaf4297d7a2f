// Weights in Q4_K: blocks of 256 nibbles; each 32 have a scale and a minimum of 6 bits,
// which a block's two f16 multiply: weight = d · scale · nibble − e · minimum.
// A unit is 16 bytes of a row: one such 32, eight quads, its nibbles as in Q4_0. The second
// plane has 16 bytes a block: d, e and the packed scales and minimums.
// Needs: six_bits.wgsl
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    scale: f32,
    minimum: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let factors = six_bits(weights[(params.plane1_offset >> 2u) + (at >> 3u)], at & 7u);
    return Unit(weights[at], factors.x, factors.y);
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return bytes(nibbles(unit.quants, q)) * unit.scale - unit.minimum;
}
