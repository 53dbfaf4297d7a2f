// The header of Q4_K and Q5_K: 16 bytes a block, two f16 and eight scales and minimums of six bits.

// Scale and minimum of 32 weights, group `group` of eight: d · scale and e · minimum.
// Byte g of y and z has scale and minimum of group g < 4 in its low six bits. Those of group 4 + g
// are byte g of w, half each, and the two bits left above.
fn six_bits(header: vec4<u32>, group: u32) -> vec2<f32> {
    let packed = header.yzw >> vec3<u32>((group & 3u) * 8u);
    var six_bits = packed.xy & vec2<u32>(63u);
    if (group > 3u) {
        six_bits = (vec2<u32>(packed.z, packed.z >> 4u) & vec2<u32>(15u))
            | ((packed.xy >> vec2<u32>(2u)) & vec2<u32>(48u));
    }
    return unpack2x16float(header.x) * vec2<f32>(six_bits);
}
