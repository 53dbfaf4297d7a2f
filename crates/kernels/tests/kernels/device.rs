//! Memory, reads and limits of the device.

use conclave_kernels::*;

use crate::support::*;

#[test]
fn several_buffers_come_back_in_one_read() {
    let (a, b) = (upload(&[1_u32, 2, 3]), upload(&[0.5_f32]));
    let data = pollster::block_on(gpu().read(&[&b, &a, &b])).unwrap();
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&data[0]), [0.5]);
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, u32>(&data[1]), [1, 2, 3]);
    assert_eq!(data[2], data[0]);
}

#[test]
fn writes_and_launches_keep_their_order() {
    let (a, out) = (upload(&[1.0_f32; 4]), marked(4));
    for step in 0..100 {
        gpu().write(&a, &[step as f32; 4]).unwrap();
        let other = if step == 0 {
            upload(&[0.0_f32; 4])
        } else {
            a.clone()
        };
        add(gpu(), &a, &other, 4, &out).unwrap();
    }
    gpu().write(&a, &[-1.0_f32; 4]).unwrap();
    assert_eq!(read(&[&out, &a]), [vec![198.0; 4], vec![-1.0; 4]]);
    assert!(matches!(
        gpu().write(&a, &[1_u32]),
        Err(GpuError::Shape { .. })
    ));
}

#[test]
fn sizes_the_device_cannot_bind_are_refused() {
    let limit = gpu().limits().binding_bytes as usize;
    assert!(limit >= 128 << 20);
    let large = gpu().empty(limit + 4).unwrap_err();
    assert!(matches!(large, GpuError::TooLarge { .. }), "{large}");
    assert!(matches!(gpu().empty(0), Err(GpuError::Shape { .. })));
    assert!(matches!(gpu().allocate(6), Err(GpuError::Shape { .. })));
}

#[test]
fn the_adapter_is_named() {
    let adapter = gpu().adapter();
    assert!(!adapter.name.is_empty() && !adapter.backend.is_empty());
    let missing = AdapterChoice::Named("no such adapter".into());
    let error = pollster::block_on(Gpu::init(missing)).unwrap_err();
    assert!(matches!(&error, GpuError::NoAdapter { .. }));
    assert!(error.to_string().contains(&adapter.name), "{error}");
}
