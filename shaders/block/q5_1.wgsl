// Weights in Q5_1: blocks of 32 times 5 bits under an f16 scale and above an f16 minimum:
// weight = scale · quant + minimum.
// A unit is one block, eight quads: 16 bytes of nibbles as in Q4_0, and in the second plane two
// words: scale and minimum, and the fifth bits.
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    fifths: u32,
    scale: f32,
    minimum: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let factors = halves_at(params.plane1_offset, 2u * at);
    return Unit(weights[at], word_at(params.plane1_offset, 2u * at + 1u), factors.x, factors.y);
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let quants = nibbles(unit.quants, q) | (bits(unit.fifths, q) << 4u);
    return bytes(quants) * unit.scale + unit.minimum;
}
