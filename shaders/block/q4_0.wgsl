// Weights in Q4_0: blocks of 32 nibbles, each minus 8, under one f16 scale.
// A unit is 16 bytes of a row: one block, eight quads. Weight i of a block is the
// low nibble of byte i, weight 16 + i its high nibble. The scales are the second plane.
const QUADS: u32 = 8u;

struct Unit {
    quants: vec4<u32>,
    scale: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    return Unit(weights[at], half_at(params.plane1_offset, at));
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return (bytes(nibbles(unit.quants, q)) - 8.0) * unit.scale;
}
