// Weights in Q5_0: blocks of 32 times 5 bits, each minus 16, under one f16 scale.
// A unit is one block, eight quads: 16 bytes of nibbles as in Q4_0, in the second plane a word of
// fifth bits, in the third the scale.
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    fifths: u32,
    scale: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let third = params.plane1_offset + (params.plane1_offset >> 2u);
    return Unit(weights[at], word_at(params.plane1_offset, at), half_at(third, at));
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let quants = nibbles(unit.quants, q) | (bits(unit.fifths, q) << 4u);
    return (bytes(quants) - 16.0) * unit.scale;
}
