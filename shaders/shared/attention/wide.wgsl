// Heads of up to 512 numbers: their queries fill half of a workgroup's memory.
const MAX_QUADS: u32 = 128u;
