
// A head of the cache: its numbers.
fn words_of_head() -> u32 {
    return params.width;
}

fn word_of_head(i: u32, head: Head, unit: f32) -> u32 {
    return bitcast<u32>(stored(head, i));
}
