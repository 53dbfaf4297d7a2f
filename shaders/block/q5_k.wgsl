// Weights in Q5_K: Q4_K with a fifth bit, in a plane of its own: a word a unit.
// Needs: six_bits.wgsl
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    fifths: u32,
    scale: f32,
    minimum: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    // The third plane, after 16 bytes of nibbles and 4 of fifth bits a unit.
    let header = (params.plane1_offset + (params.plane1_offset >> 2u)) >> 2u;
    let factors = six_bits(weights[header + (at >> 3u)], at & 7u);
    return Unit(weights[at], word_at(params.plane1_offset, at), factors.x, factors.y);
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let quants = nibbles(unit.quants, q) | (bits(unit.fifths, q) << 4u);
    return bytes(quants) * unit.scale - unit.minimum;
}
