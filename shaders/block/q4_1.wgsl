// Weights in Q4_1: blocks of 32 nibbles under an f16 scale and above an f16 minimum:
// weight = scale · nibble + minimum.
// A unit is 16 bytes of a row: one block, eight quads, its nibbles as in Q4_0. The second
// plane has scale and minimum of each block side by side.
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    scale: f32,
    minimum: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let factors = halves_at(params.plane1_offset, at);
    return Unit(weights[at], factors.x, factors.y);
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return bytes(nibbles(unit.quants, q)) * unit.scale + unit.minimum;
}
