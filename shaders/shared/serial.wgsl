// A thread computes an item alone. CPUs emulating GPUs run the threads of a workgroup in turn, and
// switch between them for a barrier, which costs more than the work.
const THREADS: u32 = 1u;  // of an item
const ITEMS: u32 = 8u;    // of a workgroup

fn sum_of_all(own: f32, local: u32) -> f32 {
    return own;
}

@compute @workgroup_size(8)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    make(vec3<u32>(group.x * ITEMS + local, group.yz), groups.x * ITEMS, 0u);
}
