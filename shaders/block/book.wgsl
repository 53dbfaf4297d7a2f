// Position and signs of a format's code book.

// The first word of the book: after all planes, at a multiple of 16 bytes. The first plane of each
// such format has 64 bytes a block.
fn book() -> u32 {
    return ((params.plane1_offset >> 4u) * BLOCK_BYTES + 15u) / 16u * 4u;
}

// Eight signs from each seven consecutive bits: the eighth makes the number of set bits even.
fn even_signs(sevens: vec4<u32>) -> u32 {
    let seven = sevens & vec4<u32>(127u);
    let eight = seven | ((countOneBits(seven) & vec4<u32>(1u)) << vec4<u32>(7u));
    return eight.x | (eight.y << 8u) | (eight.z << 16u) | (eight.w << 24u);
}

// The numbers, negative where the low four bits are set.
fn with_signs(numbers: vec4<f32>, signs: u32) -> vec4<f32> {
    let negative = (vec4<u32>(signs) & vec4<u32>(1u, 2u, 4u, 8u)) != vec4<u32>(0u);
    return select(numbers, -numbers, negative);
}
