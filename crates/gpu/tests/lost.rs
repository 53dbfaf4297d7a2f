//! Behaviour of a lost device: alone in its process, since the test loses one.

use conclave_gpu::GpuError;

#[path = "device/support.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod support;

use support::{add, open};

/// Memory of live buffers is freed; every call on a lost device fails at once, without a panic; a
/// new device works.
#[test]
fn a_lost_device_is_an_error_and_a_new_one_works() {
    pollster::block_on(async {
        let gpu = open()
            .await
            .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"));
        let before = gpu.memory_in_use();
        let cache = gpu.allocate(8 << 20).unwrap();
        gpu.sync().await.unwrap();
        assert!(gpu.memory_in_use() >= before + (8 << 20));
        drop(cache);
        gpu.sync().await.unwrap();
        assert!(gpu.memory_in_use() < before + (8 << 20));

        let (a, b) = (
            gpu.upload(&[1.0_f32; 4]).unwrap(),
            gpu.upload(&[2.0_f32; 4]).unwrap(),
        );
        let out = gpu.allocate(16).unwrap();
        add(&gpu, &a, &b, 4, &out).unwrap();
        assert_eq!(gpu.lost(), None);
        // With work still queued.
        gpu.destroy();
        assert!(gpu.lost().is_some());
        let lost = |error: GpuError| matches!(error, GpuError::DeviceLost { .. });
        assert!(lost(gpu.read(&[&out]).await.unwrap_err()));
        assert!(lost(gpu.sync().await.unwrap_err()));
        assert!(lost(gpu.allocate(16).unwrap_err()));
        assert!(lost(gpu.upload(&[1.0_f32]).unwrap_err()));
        assert!(lost(add(&gpu, &a, &b, 4, &out).unwrap_err()));
        drop((a, b, out, gpu));

        let gpu = open().await.unwrap();
        let (a, b) = (
            gpu.upload(&[1.0_f32; 4]).unwrap(),
            gpu.upload(&[2.0_f32; 4]).unwrap(),
        );
        let out = gpu.allocate(16).unwrap();
        add(&gpu, &a, &b, 4, &out).unwrap();
        assert_eq!(gpu.read_f32(&[&out]).await.unwrap(), [[3.0; 4]]);
    });
}
