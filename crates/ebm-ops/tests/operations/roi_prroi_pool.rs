//! PrRoIPool against tabulated values (golden/prroi_table.py), the original operator's files and numerical integration.

use candle_core::{Device, Tensor, Var};
use ebm_ops::nhwc::channels_last;
use ebm_ops::roi::prroi_pool;

/// Output, gradient of its sum in the four coordinates and in the map.
struct Pooled {
    out: Vec<f64>,
    coordinates: Vec<f64>,
    features: Vec<f64>,
}

fn pool(map: &[f64], shape: (usize, usize), roi: [f64; 4], bins: usize, scale: f64) -> Pooled {
    let features = Var::from_slice(map, (1, 1, shape.0, shape.1), &Device::Cpu).unwrap();
    let rois = Var::from_slice(&[0.0, roi[0], roi[1], roi[2], roi[3]], (1, 5), &Device::Cpu).unwrap();
    let out = prroi_pool(&features, &rois, (bins, bins), scale).unwrap();
    assert_eq!(out.dims(), &[1, 1, bins, bins]);
    let grads = out.sum_all().unwrap().backward().unwrap();
    let flat = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f64>().unwrap();
    let coordinates = flat(grads.get(&rois).unwrap());
    assert_eq!(coordinates[0], 0.0);
    let features = flat(grads.get(&features).unwrap());
    Pooled { out: flat(&out), coordinates: coordinates[1..].to_vec(), features }
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what}, element {i}: {a} where {b} is expected");
    }
}

/// F[y, x] = 4y + x on 4 × 4.
fn ramp() -> Vec<f64> {
    (0..16).map(f64::from).collect()
}

#[test]
fn tabulated_values_and_coordinate_gradients() {
    let small = [1.0, 2.0, 0.0, 0.0, -1.0, 3.0, 2.0, 1.0, 1.0];
    let ones = [1.0; 25];
    let ramp = ramp();
    type Row<'a> = (&'a [f64], usize, [f64; 4], usize, f64, &'a [f64], [f64; 4]);
    let table: &[Row] = &[
        (&ramp, 4, [0.0, 0.0, 1.0, 1.0], 1, 1.0, &[2.5], [0.5, 2.0, 0.5, 2.0]),
        (&ramp, 4, [0.5, 0.25, 2.5, 2.75], 1, 1.0, &[7.5], [0.5, 2.0, 0.5, 2.0]),
        (&ramp, 4, [0.5, 0.25, 2.5, 2.75], 2, 1.0, &[4.5, 5.5, 9.5, 10.5], [2.0, 8.0, 2.0, 8.0]),
        (&ramp, 4, [-0.5, -0.5, 0.5, 0.5], 1, 1.0, &[0.546875], [0.296875, 0.484375, 0.390625, 1.328125]),
        (&ramp, 4, [2.5, 1.0, 5.0, 2.0], 1, 1.0, &[3.55], [-1.98, 0.8, -1.42, 0.8]),
        (&ramp, 4, [1.0, 1.0, 1.0, 3.0], 2, 1.0, &[0.0; 4], [0.0; 4]),
        (&ramp, 4, [3.0, 3.0, 1.0, 1.0], 1, 1.0, &[0.0], [0.0; 4]),
        (&ramp, 4, [1.0, 0.5, 5.0, 5.5], 2, 0.5, &[4.5, 5.5, 9.5, 10.5], [1.0, 4.0, 1.0, 4.0]),
        (
            &small,
            3,
            [0.3, 0.6, 1.9, 2.2],
            1,
            1.0,
            &[0.6419921875],
            [0.0051513671875, 0.0039794921875, 0.7034423828125, 0.1753173828125],
        ),
        (
            &small,
            3,
            [-1.0, -1.0, 3.0, 3.0],
            2,
            1.0,
            &[0.4375, 0.5625, 0.5625, 0.6875],
            [0.5625, 0.5625, -0.5625, -0.5625],
        ),
    ];
    for &(map, side, roi, bins, scale, out, coordinates) in table {
        let found = pool(map, (side, side), roi, bins, scale);
        assert_close(&found.out, out, 1e-14, &format!("{roi:?}: output"));
        assert_close(&found.coordinates, &coordinates, 1e-13, &format!("{roi:?}: coordinates"));
    }
    let whole = pool(&ones, (5, 5), [-1.0, -1.0, 5.0, 5.0], 1, 1.0);
    assert_close(&whole.out, &[25.0 / 36.0], 1e-15, "unit map");
}

#[test]
fn tabulated_map_gradients() {
    let quarter = pool(&ramp(), (4, 4), [0.0, 0.0, 1.0, 1.0], 1, 1.0).features;
    let mut expected = [0.0; 16];
    for i in [0, 1, 4, 5] {
        expected[i] = 0.25;
    }
    assert_close(&quarter, &expected, 1e-15, "unit bin");

    let wide = pool(&ramp(), (4, 4), [0.5, 0.25, 2.5, 2.75], 1, 1.0).features;
    let rows =
        [[0.00703125, 0.04921875, 0.04921875, 0.00703125], [0.02421875, 0.16953125, 0.16953125, 0.02421875]];
    assert_close(&wide[..8], &rows.concat(), 1e-15, "wide bin");
    assert!((wide.iter().sum::<f64>() - 1.0).abs() < 1e-14);

    let corner = pool(&ramp(), (4, 4), [-0.5, -0.5, 0.5, 0.5], 1, 1.0).features;
    assert_close(
        &[corner[0], corner[1], corner[4], corner[5]],
        &[0.5625, 0.09375, 0.09375, 0.015625],
        1e-15,
        "corner",
    );
}

/// A version-1 `.npy` file of little-endian f32 in C order.
fn read_npy(path: &std::path::Path) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
    let header_len = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + header_len]).unwrap();
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    let shape = header.split_once('(').unwrap().1.split_once(')').unwrap().0;
    let shape: Vec<usize> = shape.split(',').filter_map(|d| d.trim().parse().ok()).collect();
    let values: Vec<f32> =
        bytes[10 + header_len..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    assert_eq!(values.len(), shape.iter().product::<usize>());
    (shape, values)
}

#[test]
fn agrees_with_the_original_cuda_operator() {
    let folder = ebm_testing::fixture("prroi_pool");
    let read = |name: &str| {
        let (shape, values) = read_npy(&folder.join(name));
        Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
    };
    let features = Var::from_tensor(&read("features.npy")).unwrap();
    let rois = Var::from_tensor(&read("rois.npy")).unwrap();
    let out = prroi_pool(&features, &rois, (2, 2), 0.5).unwrap();
    let grads = out.sum_all().unwrap().backward().unwrap();
    let difference = |a: &Tensor, b: &str| {
        (a - read(b))
            .unwrap()
            .abs()
            .unwrap()
            .flatten_all()
            .unwrap()
            .max(0)
            .unwrap()
            .to_scalar::<f32>()
            .unwrap()
    };
    assert!(difference(&out, "real_outputs.npy") < 2e-7);
    assert!(difference(grads.get(&features).unwrap(), "gradients0.npy") < 1e-7);
    assert!(difference(grads.get(&rois).unwrap(), "gradients1.npy") < 2e-7);
}

#[test]
fn agrees_with_numerical_integration() {
    let (h, w) = (6, 7);
    let map: Vec<f64> = (0..h * w).map(|i| ((i * 37) % 23) as f64 / 11.0 - 1.0).collect();
    let interpolate = |x: f64, y: f64| -> f64 {
        let tent = |t: f64| (1.0 - t.abs()).max(0.0);
        (0..h * w).map(|i| map[i] * tent(y - (i / w) as f64) * tent(x - (i % w) as f64)).sum()
    };
    let bins = 3;
    for roi in [[0.3, 0.7, 5.1, 4.9], [-2.3, 1.2, 3.3, 7.9], [2.2, 2.3, 2.6, 2.5], [4.5, -0.4, 9.0, 6.6]] {
        let found = pool(&map, (h, w), roi, bins, 1.0).out;
        let (bw, bh) = ((roi[2] - roi[0]) / bins as f64, (roi[3] - roi[1]) / bins as f64);
        let n = 120;
        for (i, value) in found.iter().enumerate() {
            let (p, q) = ((i / bins) as f64, (i % bins) as f64);
            let mut sum = 0.0;
            for a in 0..n {
                for b in 0..n {
                    let x = roi[0] + bw * (q + (f64::from(a) + 0.5) / f64::from(n));
                    let y = roi[1] + bh * (p + (f64::from(b) + 0.5) / f64::from(n));
                    sum += interpolate(x, y);
                }
            }
            let expected = sum / f64::from(n * n);
            // The midpoint rule's error on a piecewise linear integrand.
            assert!((value - expected).abs() < 5e-4, "{roi:?}, bin {i}: {value} against {expected}");
        }
    }
}

#[test]
fn a_constant_map_inside_gives_the_constant() {
    let found = pool(&[2.5; 42], (6, 7), [0.4, 0.1, 5.7, 4.9], 7, 1.0);
    assert_close(&found.out, &[2.5; 49], 1e-14, "constant");
    assert_close(&found.coordinates, &[0.0; 4], 1e-13, "constant");
}

#[test]
fn unit_bins_at_integers_are_average_pooling() {
    let (h, w) = (6, 7);
    let map: Vec<f64> = (0..h * w).map(|i| ((i * 29) % 31) as f64).collect();
    let found = pool(&map, (h, w), [1.0, 1.0, 5.0, 5.0], 4, 1.0).out;
    for (i, value) in found.iter().enumerate() {
        let at = |y: usize, x: usize| map[(1 + i / 4 + y) * w + 1 + i % 4 + x];
        let expected = (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0;
        assert!((value - expected).abs() < 1e-13, "bin {i}");
    }
}

#[test]
fn channels_last_maps_are_read_in_place_with_the_same_result() {
    let values: Vec<f32> = (0..2 * 5 * 6 * 7).map(|i| ((i * 53) % 97) as f32).collect();
    let first = Var::from_slice(&values, (2, 5, 6, 7), &Device::Cpu).unwrap();
    let last = channels_last(&first).unwrap();
    assert!(!last.is_contiguous() && last.permute((0, 2, 3, 1)).unwrap().is_contiguous());
    let rows = [1.0f32, 0.3, 0.6, 4.4, 5.5, 0.0, -1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 0.0, 9.0, 4.0];
    let rois = Var::from_slice(&rows, (3, 5), &Device::Cpu).unwrap();
    let run = |map: &Tensor| {
        let out = prroi_pool(map, &rois, (3, 2), 1.0).unwrap();
        let weights = Tensor::arange(0f32, out.elem_count() as f32, &Device::Cpu).unwrap();
        let weights = weights.reshape(out.shape()).unwrap();
        let grads = (&out * weights).unwrap().sum_all().unwrap().backward().unwrap();
        let flat = |t: &Tensor| t.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        [flat(&out), flat(grads.get(&first).unwrap()), flat(grads.get(&rois).unwrap())]
    };
    let expected = run(&first);
    assert_eq!(run(&last), expected);
    // Part of a batch starts inside the storage.
    let tail = channels_last(&first.narrow(0, 1, 1).unwrap()).unwrap();
    let alone = Tensor::from_slice(&[0.0f32, 0.3, 0.6, 4.4, 5.5], (1, 5), &Device::Cpu).unwrap();
    let out =
        prroi_pool(&tail, &alone, (3, 2), 1.0).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(out, expected[0][..30]);
}
