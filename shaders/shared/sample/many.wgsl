// Threads that draw a token.
const WORKGROUP: u32 = 256u;

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) local: u32) {
    draw(local);
}
