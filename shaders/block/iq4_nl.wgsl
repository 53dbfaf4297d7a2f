// Weights in IQ4_NL: Q4_0 whose nibbles choose from a table.
// Needs: iq4_levels.wgsl
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
    return levels(nibbles(unit.quants, q)) * unit.scale;
}
