// Weights in F32. A unit is 16 bytes of a row: one quad (four weights).
const QUADS: u32 = 1u;

// Quad q of a unit, dequantised but not yet scaled.
fn quad(unit: vec4<u32>, q: u32) -> vec4<f32> {
    return bitcast<vec4<f32>>(unit);
}

// The factor of a unit. F32 has none.
fn scale(row: u32, unit: u32) -> f32 {
    return 1.0;
}
