// Weights in MXFP4: blocks of 32 floats of four bits with a power of two, 2^(e − 128) with the
// floats doubled to integers: ggml's `kvalues_mxfp4`, ±0, 1, 2, 3, 4, 6, 8, 12. A unit is one
// block, eight quads, its nibbles as in Q4_0. The second plane has the bytes e.
// Needs: levels.wgsl
const QUADS: u32 = 8u;
const LEVELS: vec4<u32> = vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);

struct Unit {
    quants: vec4<u32>,
    scale: f32,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let exponent = (word_at(params.plane1_offset, at >> 2u) >> (8u * (at & 3u))) & 0xffu;
    // Below 2 the power is subnormal, which few GPUs support, and negligible.
    return Unit(weights[at], bitcast<f32>((max(exponent, 1u) - 1u) << 23u));
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    return levels(nibbles(unit.quants, q)) * unit.scale;
}
