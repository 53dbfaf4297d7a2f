// Weights in IQ3_S: for each 32, the low bytes of eight entries' numbers, and in the second plane a
// word of signs; the third has a block's ninth bits of the numbers, a byte a unit, and the 4-bit
// scales: weight = d · (2 scale + 1) · ±number. The fourth has d.
// Needs: iq3.wgsl
const BLOCK_BYTES: u32 = 110u;

fn unit_at(row: u32, unit: u32) -> Unit {
    let at = row * params.units + unit;
    let both = weights[at >> 1u];
    let words = select(both.xy, both.zw, (at & 1u) == 1u);
    let block = at >> 3u;
    let group = at & 7u;
    // After 64 bytes and 32 a block; after 12 more.
    let third = params.plane1_offset + (params.plane1_offset >> 1u);
    let fourth = third + 3u * (params.plane1_offset >> 4u);
    let ninths = word_at(third + 3u * block, group >> 2u) >> (8u * (group & 3u));
    let scale = (word_at(third + 3u * block, 2u) >> (4u * group)) & 15u;
    let low = (words.xxyy >> vec4<u32>(0u, 16u, 0u, 16u)) & vec4<u32>(0xffu);
    let high = (words.xxyy >> vec4<u32>(8u, 24u, 8u, 24u)) & vec4<u32>(0xffu);
    let even = (vec4<u32>(ninths) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(1u);
    let odd = (vec4<u32>(ninths) >> vec4<u32>(1u, 3u, 5u, 7u)) & vec4<u32>(1u);
    return Unit(
        low | (even << vec4<u32>(8u)) | (high << vec4<u32>(16u)) | (odd << vec4<u32>(24u)),
        word_at(params.plane1_offset, at),
        half_at(fourth, block) * f32(2u * scale + 1u),
    );
}

// 1, 3, 5, … 15.
fn magnitudes(threes: vec4<u32>) -> vec4<u32> {
    return vec4<u32>(1u) + 2u * threes;
}
