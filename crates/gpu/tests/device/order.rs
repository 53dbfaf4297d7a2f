//! Memory, reads and limits of the device.

use std::future::Future;

use conclave_gpu::*;

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
    let large = gpu().allocate(limit + 4).unwrap_err();
    assert!(matches!(large, GpuError::TooLarge { .. }), "{large}");
    assert!(matches!(gpu().allocate(0), Err(GpuError::Shape { .. })));
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

/// A write happens after the launches before it and before those after it.
#[test]
fn a_write_keeps_its_place_between_launches() {
    let (x, sum) = (upload(&[1.0_f32; 4]), upload(&[0.0_f32; 4]));
    let twice = marked(4);
    for value in [1.0_f32, 2.0, 3.0] {
        gpu().write(&x, &[value; 4]).unwrap();
        // Longer than a submit.
        for _ in 0..50 {
            add(gpu(), &x, &sum, 4, &twice).unwrap();
            add(gpu(), &twice, &x, 4, &sum).unwrap();
        }
    }
    assert_eq!(read(&[&sum]), [[600.0; 4]]);
}

#[test]
fn parts_of_a_buffer_are_read_and_written_alone() {
    let all = upload(&[0.0_f32; 192]);
    let part = all.part(256, 256).unwrap();
    gpu().write(&part, &[2.0_f32; 64]).unwrap();
    gpu()
        .write(&part.part(0, 16).unwrap(), &[1.0_f32; 4])
        .unwrap();
    let out = marked(64);
    add(gpu(), &part, &part, 64, &out).unwrap();
    let (front, data) = (all.part(252, 20).unwrap(), read(&[&out]));
    assert_eq!(data[0][..5], [2.0, 2.0, 2.0, 2.0, 4.0]);
    assert_eq!(read(&[&front]), [[0.0, 1.0, 1.0, 1.0, 1.0]]);
    assert!(all.part(512, 260).is_err() && all.part(2, 4).is_err());
    assert!(part.part(0, 260).is_err());
    // Kernels take parts at multiples of 256 only.
    let odd = all.part(4, 256).unwrap();
    let error = add(gpu(), &odd, &odd, 64, &out).unwrap_err();
    assert!(matches!(error, GpuError::Shape { .. }), "{error}");
    // A part is the same memory: it cannot be read and written at once.
    assert!(add(gpu(), &part, &part, 64, &all).is_err());
}

/// Concurrent reads share a copy and a wait; a lone read does not wait for others.
#[test]
fn reads_side_by_side_are_one() {
    use std::task::{Context, Poll, Waker};
    let gpu = pollster::block_on(open()).expect("an adapter");
    let buffers: Vec<Buffer> = (0..3_u32)
        .map(|i| gpu.upload(&vec![i; 2 + i as usize]).unwrap())
        .collect();
    let before = gpu.counters();
    let mut reads: Vec<_> = buffers
        .iter()
        .map(|buffer| {
            let gpu = gpu.clone();
            Box::pin(async move { gpu.read(&[buffer, buffer]).await })
        })
        .collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut found = vec![None; 3];
    for _ in 0..1000 {
        for (read, found) in reads.iter_mut().zip(&mut found) {
            if found.is_none()
                && let Poll::Ready(read) = read.as_mut().poll(&mut context)
            {
                *found = Some(read.unwrap());
            }
        }
    }
    for (i, found) in (0_u32..).zip(found) {
        let wanted: Vec<u8> = i.to_le_bytes().repeat(2 + i as usize);
        assert_eq!(found, Some(vec![wanted.clone(), wanted]));
    }
    assert_eq!((gpu.counters() - before).read_backs, 1);
    assert!(pollster::block_on(gpu.read(&[&buffers[0]])).is_ok());
    assert_eq!((gpu.counters() - before).read_backs, 2);
}

/// Reads of several threads may share a copy or just miss it; each gets its own data.
#[test]
fn reads_of_several_threads_bring_each_its_own() {
    let gpu = pollster::block_on(open()).expect("an adapter");
    std::thread::scope(|scope| {
        for thread in 1..=4_u32 {
            let gpu = &gpu;
            scope.spawn(move || {
                let numbers = vec![thread; 2 * thread as usize];
                let buffer = gpu.upload(&numbers).unwrap();
                let wanted = bytemuck::cast_slice::<u32, u8>(&numbers);
                for read in 0..5000 {
                    let found = pollster::block_on(gpu.read(&[&buffer]));
                    assert_eq!(found.unwrap(), [wanted], "thread {thread}, read {read}");
                }
            });
        }
    });
}
