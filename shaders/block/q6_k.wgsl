// Weights in Q6_K: blocks of 256 times 6 bits, each minus 32; each 16 have a signed 8-bit
// scale, which a block's f16 multiplies.
// A unit is 32 weights of a row, eight quads: 16 bytes of nibbles as in Q4_0 and, in the
// second plane, 8 bytes with the two bits above them: word q / 4, bits 2(q mod 4) of each
// byte, belongs to quad q. The third plane has 16 scales a block, the fourth the f16.
const QUADS: u32 = 8u;

struct Unit {
    low: vec4<u32>,
    high: vec2<u32>,
    scales: vec2<f32>,
}

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    // The planes' offsets, in 16 bytes; the first has 128 a block, the second 64.
    let second = params.plane1_offset >> 2u;
    let third = second + (second >> 1u);
    let fourth = third + (second >> 3u);
    let pair = weights[second + (at >> 1u)];
    let scales = weights[third + (at >> 3u)][(at & 7u) >> 1u] >> ((at & 1u) * 16u);
    return Unit(
        weights[at],
        select(pair.xy, pair.zw, (at & 1u) == 1u),
        signed_bytes(scales).xy * half_at(fourth << 2u, at >> 3u),
    );
}

fn quad(unit: Unit, q: u32) -> vec4<f32> {
    let low = nibbles(unit.low, q);
    let high = twos(unit.high, q);
    return (bytes(low | (high << 4u)) - 32.0) * unit.scales[q >> 2u];
}
