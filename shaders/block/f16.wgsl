// Weights in F16, read without f16 arithmetic. A unit is 16 bytes of a row: two quads.
const QUADS: u32 = 2u;

// Quad q of a unit, dequantised but not yet scaled.
fn quad(unit: vec4<u32>, q: u32) -> vec4<f32> {
    let pair = select(unit.xy, unit.zw, q == 1u);
    return vec4<f32>(unpack2x16float(pair.x), unpack2x16float(pair.y));
}

// The factor of a unit. F16 has none.
fn scale(row: u32, unit: u32) -> f32 {
    return 1.0;
}
