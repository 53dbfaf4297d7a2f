// Weights in F32. A unit is 16 bytes of a row: one quad (four weights).
const QUADS: u32 = 1u;

struct Unit {
    weights: vec4<f32>,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    return Unit(bitcast<vec4<f32>>(weights[row * params.units + unit]));
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return unit.weights;
}
