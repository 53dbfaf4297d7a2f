// Weights in Q8_0: blocks of 32 signed bytes under one f16 scale.
// A unit is 16 bytes of a row: half a block, four quads. The scales are the second plane.
const QUADS: u32 = 4u;

struct Unit {
    quants: vec4<u32>,
    scale: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    return Unit(weights[at], half_at(params.plane1_offset, at >> 1u));
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return signed_bytes(unit.quants[q]) * unit.scale;
}
