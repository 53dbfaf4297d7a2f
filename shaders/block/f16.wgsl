// Weights in F16, read without f16 arithmetic. A unit is 16 bytes of a row: two quads.
const QUADS: u32 = 2u;

struct Unit {
    halves: vec4<u32>,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    return Unit(weights[row * params.units + unit]);
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let pair = select(unit.halves.xy, unit.halves.zw, q == 1u);
    return vec4<f32>(unpack2x16float(pair.x), unpack2x16float(pair.y));
}
