//! Inverted residuals in one pass.

use candle_core::{DType, Device, Tensor};
use ebm_ops::internals::{PackedConv2d, PackedInverted, Parameters};
use ebm_ops::nhwc::{conv2d, depthwise_conv2d};
use ebm_ops::{Activation, Padding};
use proptest::{prop_assert, prop_assert_eq, prop_assume};

use crate::depthwise::{PADDINGS, along, constant};
use crate::differences::{distance, noise_tensor};
use crate::sizes::{for_all, to};

#[derive(Clone, Copy, Debug)]
struct Case {
    input: [usize; 4],
    /// Whether x is expanded.
    expands: bool,
    channels: usize,
    outputs: usize,
    kernel: usize,
    stride: usize,
    padding: Padding,
}

impl Case {
    /// Returns x, and weight and bias of expansion, depthwise convolution and projection.
    fn tensors(self) -> Vec<Tensor> {
        let Self { input, channels, outputs, kernel, .. } = self;
        let noise = |shape: &[usize], salt| (noise_tensor(shape, salt).unwrap() * 2.0).unwrap();
        vec![
            noise(&input, 1),
            noise(&[channels, input[3], 1, 1], 2),
            noise(&[channels], 3),
            noise(&[channels, 1, kernel, kernel], 4),
            noise(&[channels], 5),
            noise(&[outputs, channels, 1, 1], 6),
            noise(&[outputs], 7),
        ]
    }

    fn residual(self) -> bool {
        self.stride == 1 && self.outputs == self.input[3] && self.padding == Padding::Same
    }

    fn packed(self, t: &[Tensor]) -> Tensor {
        let layer = |i: usize| Parameters { weight: &t[i], bias: Some(&t[i + 1]) };
        let expand = self.expands.then(|| layer(1));
        let (stride, padding) = (self.stride, self.padding);
        let packed =
            PackedInverted::new(expand, layer(3), layer(5), stride, padding, Activation::Relu6).unwrap();
        packed.forward(&t[0], self.residual()).unwrap()
    }

    /// Computes layer after layer, from the definitions in f64.
    fn expected(self, t: &[Tensor]) -> Tensor {
        let add = |y: Tensor, bias: &Tensor| y.broadcast_add(bias).unwrap();
        let pointwise = |x: &Tensor, i: usize| add(conv2d(x, &t[i], None, 1, 0).unwrap(), &t[i + 1]);
        let expanded = if self.expands {
            Activation::Relu6.apply(&pointwise(&t[0], 1), None).unwrap()
        } else {
            t[0].clone()
        };
        let middle = depthwise_conv2d(&expanded, &t[3], None, self.stride, self.padding).unwrap();
        let y = pointwise(&Activation::Relu6.apply(&add(middle, &t[4]), None).unwrap(), 5);
        if self.residual() { (y + &t[0]).unwrap() } else { y }
    }

    /// Computes layer after layer with the packed layers.
    fn layers(self, t: &[Tensor]) -> Tensor {
        let pointwise = |i: usize| PackedConv2d::new(&t[i], Some(&t[i + 1]), 1, 0).unwrap();
        let expanded = match self.expands {
            true => pointwise(1).forward(&t[0], None, Activation::Relu6).unwrap(),
            false => t[0].clone(),
        };
        let depthwise = constant(&t[3], &t[4], self.stride, self.padding).relu6();
        let middle = depthwise.forward_channels_last(&expanded, None, true, false).unwrap();
        pointwise(5).forward(&middle, self.residual().then_some(&t[0]), Activation::None).unwrap()
    }
}

fn narrow(t: &[Tensor]) -> Vec<Tensor> {
    t.iter().map(|t| t.to_dtype(DType::F32).unwrap()).collect()
}

fn numbers_of(y: &Tensor) -> Vec<f32> {
    y.flatten_all().unwrap().to_vec1().unwrap()
}

#[test]
fn as_the_layers_one_after_the_other() {
    let choices = [
        to(2),
        to(14),
        to(22),
        vec![1, 8, 33],
        vec![1, 24, 40, 97],
        vec![0, 1],
        vec![1, 8, 33, 40],
        vec![3, 5],
        to(2),
        (0..PADDINGS.len()).collect(),
    ];
    for_all(48, choices, |[n, h, w, inputs, channels, expands, outputs, kernel, stride, padding]| {
        let (expands, padding) = (expands == 1, PADDINGS[padding]);
        prop_assume!(along(padding, h.min(w), kernel, stride).is_some());
        let channels = if expands { channels } else { inputs };
        let case = Case { input: [n, h, w, inputs], expands, channels, outputs, kernel, stride, padding };
        let t = case.tensors();
        let y = case.packed(&narrow(&t));
        let found = distance(&y, &case.expected(&t)).unwrap();
        prop_assert!(found < 1e-5, "{case:?}: {found}");
        prop_assert_eq!(numbers_of(&y), numbers_of(&case.layers(&narrow(&t))), "{:?}", case);
        Ok(())
    });
}

#[test]
fn bands_and_threads_change_no_bit() {
    // Several bands of each of three panels, the last of which is not full.
    let case = Case {
        input: [1, 70, 90, 16],
        expands: true,
        channels: 72,
        outputs: 24,
        kernel: 5,
        stride: 2,
        padding: Padding::Same,
    };
    let t = narrow(&case.tensors());
    let expected = numbers_of(&case.layers(&t));
    for threads in [1, 2, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(|| numbers_of(&case.packed(&t))), expected, "{threads}");
    }
}

#[test]
fn not_a_number_stays_where_it_is_seen() {
    let case = Case {
        input: [1, 9, 9, 8],
        expands: true,
        channels: 40,
        outputs: 8,
        kernel: 3,
        stride: 1,
        padding: Padding::Same,
    };
    let mut t = narrow(&case.tensors());
    let mut x = numbers_of(&t[0]);
    x[(4 * 9 + 4) * 8] = f32::NAN;
    t[0] = Tensor::from_vec(x, (1, 9, 9, 8), &Device::Cpu).unwrap();
    for (place, number) in numbers_of(&case.packed(&t)).into_iter().enumerate() {
        let (row, column) = (place / 8 / 9, place / 8 % 9);
        assert_eq!(number.is_nan(), row.abs_diff(4) <= 1 && column.abs_diff(4) <= 1, "{row} {column}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let t = narrow(
        &Case {
            input: [1, 6, 6, 4],
            expands: true,
            channels: 8,
            outputs: 5,
            kernel: 3,
            stride: 1,
            padding: Padding::Same,
        }
        .tensors(),
    );
    let layer = |i: usize| Parameters { weight: &t[i], bias: Some(&t[i + 1]) };
    let new = |stride| {
        PackedInverted::new(Some(layer(1)), layer(3), layer(5), stride, Padding::Same, Activation::Relu6)
    };
    assert!(new(3).is_err());
    let packed = new(1).unwrap();
    assert!(packed.forward(&t[0], true).is_err(), "a result of 5 channels plus 4");
    assert!(packed.forward(&Tensor::zeros((1, 6, 6, 3), DType::F32, &Device::Cpu).unwrap(), false).is_err());
    let wrong = Parameters { weight: &t[5], bias: None };
    assert!(
        PackedInverted::new(Some(wrong), layer(3), layer(5), 1, Padding::Same, Activation::Relu6).is_err()
    );
}
