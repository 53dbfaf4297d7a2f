// Heads of up to 256 numbers.
const MAX_QUADS: u32 = 64u;
