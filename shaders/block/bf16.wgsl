// Weights in BF16, the upper halves of 32-bit floats. A unit is 16 bytes of a row: two quads.
const QUADS: u32 = 2u;

struct Unit {
    halves: vec4<u32>,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    return Unit(weights[row * params.units + unit]);
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let pair = select(unit.halves.xy, unit.halves.zw, q == 1u);
    let upper = vec4<u32>(pair.x << 16u, pair.x, pair.y << 16u, pair.y) & vec4<u32>(0xffff0000u);
    return bitcast<vec4<f32>>(upper);
}
