use std::thread;

use candle_core::{DType, Device};

use super::*;
use crate::distributed::Threads;

/// Runs `work` on each rank and returns the results.
fn ranks<T: Send>(world: usize, work: impl Fn(Group) -> T + Sync) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let start = |engine| scope.spawn(move || work(Group::new(Box::new(engine))));
        let threads: Vec<_> = Threads::new(world).into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Tells the other ranks of an error in `result`, and returns `result`.
fn told<T, E: fmt::Display>(group: &Group, result: std::result::Result<T, E>) -> std::result::Result<T, E> {
    result.inspect_err(|error| group.fail(&error.to_string()))
}

fn numbers(rank: usize, shape: &[usize], dtype: DType) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f64> = (0..count).map(|i| ((i * 7 + rank * 3) % 11) as f64 - 4.5).collect();
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap().to_dtype(dtype).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(DType::F64).unwrap().flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn means_are_means_and_the_same_everywhere() {
    let shapes: [&[usize]; 5] = [&[2, 3], &[], &[0, 4], &[BUCKET + 3], &[5]];
    let types = [DType::F32, DType::F64, DType::F32, DType::F32, DType::F32];
    for world in [1, 2, 3] {
        let results = ranks(world, |group| {
            let mut tensors: Vec<Tensor> =
                shapes.iter().zip(types).map(|(shape, dtype)| numbers(group.rank(), shape, dtype)).collect();
            // This tensor is not contiguous.
            tensors[0] = tensors[0].t().unwrap();
            group.mean(&mut tensors).unwrap();
            group.finish().unwrap();
            tensors
        });
        for ((i, shape), dtype) in shapes.iter().enumerate().zip(types) {
            let parts: Vec<Vec<f64>> = (0..world).map(|rank| values(&numbers(rank, shape, dtype))).collect();
            for result in &results {
                let found = if i == 0 { result[0].t().unwrap() } else { result[i].clone() };
                assert_eq!((found.dims(), found.dtype()), (*shape, dtype));
                for (j, value) in values(&found).into_iter().enumerate() {
                    let mean = parts.iter().map(|part| part[j]).sum::<f64>() / world as f64;
                    assert!((value - mean).abs() < 1e-6, "{value} {mean}");
                }
                assert_eq!(values(&result[i]), values(&results[0][i]));
            }
        }
    }
}

#[test]
fn one_process_is_left_alone() {
    let group = Group::alone();
    let tensor = numbers(0, &[3], DType::F32);
    let mut same = [tensor.clone()];
    group.mean(&mut same).unwrap();
    assert_eq!(same[0].id(), tensor.id());
    assert_eq!(group.share(vec![1, 2]).unwrap(), [1, 2]);
    assert!(group.any(true).unwrap() && !group.any(false).unwrap());
    group.fail("alone");
    group.finish().unwrap();
    let (key, other) = (Key::new(1), Group::new(Box::new(Threads::new(1).remove(0))));
    assert_eq!((other.world(), other.share_of(3).unwrap()), (1, 0..3));
    assert_eq!(format!("{:?}", group.key(key)), format!("{key:?}"));
}

#[test]
fn rank_0_is_heard_and_any_flag_counts() {
    let results = ranks(3, |group| {
        let shared = group.share(vec![group.rank() as u8; 4 - group.rank()]).unwrap();
        let flags = [0, 2, 9].map(|rank| group.any(group.rank() == rank).unwrap());
        let key = format!("{:?}", group.key(Key::new(7)));
        let share = group.share_of(6).unwrap();
        group.finish().unwrap();
        (shared, flags, key, share)
    });
    for (shared, flags, _, _) in &results {
        assert_eq!((shared.as_slice(), *flags), ([0; 4].as_slice(), [true, true, false]));
    }
    assert_eq!(results[0].2, format!("{:?}", Key::new(7)));
    assert!(results[1].2 != results[0].2 && results[1].2 != results[2].2);
    assert_eq!(results[2].3, 4..6);
}

#[test]
fn shares_are_equal_and_cover_the_batch() {
    assert_eq!(
        ranks(4, |group| (group.share_of(12).unwrap(), group.finish().unwrap()).0),
        [0..3, 3..6, 6..9, 9..12]
    );
    for (world, batch) in [(2, 3), (4, 2), (2, 0)] {
        let refused =
            |group: Group| (group.share_of(batch).unwrap_err().to_string(), group.finish().unwrap()).0;
        for error in ranks(world, refused) {
            assert!(error.contains(&world.to_string()) && error.contains(&batch.to_string()), "{error}");
        }
    }
}

#[test]
fn bytes_of_any_value_and_length_are_shared() {
    let long: Vec<u8> = (0..BUCKET + 300).map(|i| i as u8).collect();
    let shared = ranks(2, |group| {
        let mine = if group.is_first() { long.clone() } else { Vec::new() };
        let shared = [group.share(mine).unwrap(), group.share(Vec::new()).unwrap()];
        group.finish().unwrap();
        shared
    });
    assert!(shared.iter().all(|[found, empty]| *found == long && empty.is_empty()));
}

#[test]
fn a_failure_reaches_all_whatever_they_were_about_to_do() {
    let results = ranks(4, |group| {
        let mut tensors = [numbers(group.rank(), &[4], DType::F32)];
        let result = match group.rank() {
            1 => told(&group, refuse::<()>("no power")),
            0 => told(&group, group.mean(&mut tensors)),
            2 => group.any(false).map(|_| ()),
            _ => group.share(Vec::new()).map(|_| ()),
        };
        // All ranks know of the failure; nothing is sent any more.
        group.fail("again");
        assert!(group.any(true).is_err());
        result.unwrap_err()
    });
    for (rank, error) in results.iter().enumerate() {
        match error {
            Error::Rank(1, message) if rank != 1 => assert!(message.ends_with(": no power")),
            Error::Distributed(_) if rank == 1 => {}
            other => panic!("rank {rank}: {other}"),
        }
    }
    // Both fail at once: each keeps its own reason.
    let all = ranks(2, |group| told(&group, Err::<(), _>(format!("mine, {}", group.rank()))).unwrap_err());
    assert_eq!(all, ["mine, 0", "mine, 1"]);
}

#[test]
fn ranks_that_are_not_at_the_same_place_part_with_an_error() {
    let different: [fn(&Group) -> Result<()>; 2] = [
        |group| group.mean(&mut [numbers(0, &[2 + group.rank()], DType::F32)]),
        |group| if group.is_first() { group.any(true).map(|_| ()) } else { group.finish() },
    ];
    for act in different {
        for error in ranks(2, |group| act(&group).unwrap_err()) {
            assert!(matches!(&error, Error::Distributed(_)), "{error}");
        }
    }
}

#[test]
fn a_rank_that_vanishes_ends_the_others() {
    let results =
        ranks(2, |group| if group.is_first() { drop(group) } else { assert!(group.any(true).is_err()) });
    assert_eq!(results.len(), 2);
}
