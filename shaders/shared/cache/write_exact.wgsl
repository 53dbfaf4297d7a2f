
// A head of the cache: its numbers.
fn words_of_head() -> u32 {
    return params.width;
}

fn word_of_head(i: u32, head: Head) -> u32 {
    return bitcast<u32>(stored(head, i));
}

// Number i as it is read from the cache.
fn kept(head: Head, i: u32) -> f32 {
    return stored(head, i);
}
