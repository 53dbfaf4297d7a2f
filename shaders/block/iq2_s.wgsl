// Weights in IQ2_S: the low byte of an entry's number and a byte of signs for each eight; a 4-bit
// scale for each 16: weight = d · (scale + ½) / 4 · ±number. A unit is 8 bytes, four low bytes and
// four of signs; the second plane has two bytes a unit, the upper two bits of four numbers and the
// scales, the third d.
// Needs: iq2.wgsl
const BLOCK_BYTES: u32 = 82u;

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let both = weights[at >> 1u];
    let words = select(both.xy, both.zw, (at & 1u) == 1u);
    let more = word_at(params.plane1_offset, at >> 1u) >> (16u * (at & 1u));
    let low = (vec4<u32>(words.x) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(0xffu);
    let high = (vec4<u32>(more) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
    let numbers = low | (high << vec4<u32>(8u));
    let nibbles = vec2<f32>((vec2<u32>(more) >> vec2<u32>(8u, 12u)) & vec2<u32>(15u));
    // After 64 bytes and 16 a block.
    let d = half_at(params.plane1_offset + (params.plane1_offset >> 2u), at >> 3u);
    return Unit(
        numbers.xz | (numbers.yw << vec2<u32>(16u)),
        words.y,
        d * (0.5 + nibbles) * 0.25,
    );
}
