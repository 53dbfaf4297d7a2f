//! Copies of whole buffers.

use conclave_gpu::GpuError;

use crate::support::*;

#[test]
fn a_buffer_is_copied_to_the_front_of_another() {
    let (from, to) = (upload(&[1.0_f32, 2.0, 3.0]), upload(&[7.0_f32; 5]));
    gpu().copy_into(&from, &to).unwrap();
    assert_eq!(read(&[&to]), [[1.0, 2.0, 3.0, 7.0, 7.0]]);
}

#[test]
fn a_smaller_buffer_and_the_same_one_are_refused() {
    let (small, large) = (upload(&[1.0_f32]), upload(&[2.0_f32; 4]));
    for (from, to) in [(&large, &small), (&large, &large)] {
        let refused = gpu().copy_into(from, to);
        assert!(
            matches!(refused, Err(GpuError::Shape { .. })),
            "{refused:?}"
        );
    }
}
