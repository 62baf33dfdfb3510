//! Bad input, extreme outputs, and the settings in a file.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::Error;
use ebm_core::parametric::{
    Baseline, Bins, ConditionalVae, Direct, DirectLoss, Gaussian, JointLaplace, Laplace, MixtureOfGaussians,
    Parametric, Softmax,
};

use super::{all, rows, scalar, waves};
use crate::zoo::flat;

#[test]
fn bad_input_has_typed_errors() {
    for (name, model, outputs) in all(1) {
        let y = rows(&[&[0.2], &[-0.9]]);
        let empty = outputs.narrow(0, 0, 0).unwrap();
        let loss = |outputs: &Tensor, y: &Tensor| model.loss(outputs, y).unwrap_err();
        assert!(matches!(loss(&empty, &y.narrow(0, 0, 0).unwrap()), Error::Empty { .. }), "{name}");
        assert!(matches!(loss(&outputs, &rows(&[&[0.2]])), Error::Shape { .. }), "{name}");
        assert!(matches!(loss(&outputs, &rows(&[&[0.2, 1.0], &[0.0, 1.0]])), Error::Shape { .. }), "{name}");
        assert!(
            matches!(loss(&waves((2, model.num_outputs() + 1), 0.0, 1.0), &y), Error::Shape { .. }),
            "{name}"
        );
        assert!(matches!(loss(&outputs.unsqueeze(0).unwrap(), &y), Error::Shape { .. }), "{name}");
        assert!(matches!(loss(&outputs.sum_all().unwrap(), &y), Error::Shape { .. }), "{name}");
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let error = loss(&outputs, &rows(&[&[0.2], &[bad]]));
            assert!(
                matches!(error, Error::NonFinite { what: "the target y", index: 1, .. }),
                "{name}: {error}"
            );
        }

        assert!(matches!(model.mean(&empty).unwrap_err(), Error::Empty { .. }), "{name}");
        assert!(matches!(model.predict(&empty).unwrap_err(), Error::Empty { .. }), "{name}");
        let wide = waves((2, model.num_outputs() + 1), 0.0, 1.0);
        for error in [model.mean(&wide), model.predict(&wide)].map(Result::unwrap_err) {
            assert!(matches!(error, Error::Shape { .. }), "{name}");
        }
        let at = |shape: &[usize]| Tensor::zeros(shape, DType::F64, &Device::Cpu).unwrap();
        if model.log_prob(&outputs, &at(&[2, 1, 1])).unwrap().is_some() {
            let log_prob = |shape: &[usize]| model.log_prob(&outputs, &at(shape)).unwrap_err();
            for shape in [&[2, 1][..], &[3, 1, 1], &[2, 1, 2]] {
                assert!(matches!(log_prob(shape), Error::Shape { .. }), "{name} {shape:?}");
            }
            assert!(matches!(log_prob(&[2, 0, 1]), Error::Empty { .. }), "{name}");
        }
    }
}

#[test]
fn bad_settings_have_typed_errors() {
    let bins = || Bins::uniform(0.0, 1.0, 3).unwrap();
    let errors = [
        (Direct::new(0, DirectLoss::L2).unwrap_err(), "dim"),
        (Direct::new(1, DirectLoss::Huber { beta: 0.0 }).unwrap_err(), "beta"),
        (Direct::new(1, DirectLoss::Huber { beta: -1.0 }).unwrap_err(), "beta"),
        (Direct::new(1, DirectLoss::Huber { beta: f64::NAN }).unwrap_err(), "beta"),
        (Direct::new(1, DirectLoss::Huber { beta: f64::INFINITY }).unwrap_err(), "beta"),
        (Gaussian::new(0).unwrap_err(), "dim"),
        (Laplace::new(0).unwrap_err(), "dim"),
        (JointLaplace::new(0).unwrap_err(), "dim"),
        (MixtureOfGaussians::new(0, 1).unwrap_err(), "dim"),
        (MixtureOfGaussians::new(1, 0).unwrap_err(), "components"),
        (ConditionalVae::new(0, 1, 1).unwrap_err(), "dim"),
        (ConditionalVae::new(1, 0, 1).unwrap_err(), "latent_dim"),
        (ConditionalVae::new(1, 1, 0).unwrap_err(), "num_samples"),
        (Softmax::new(0, bins(), 0.1, 0.0).unwrap_err(), "dim"),
        (Softmax::new(1, bins(), -0.1, 0.0).unwrap_err(), "l2_weight"),
        (Softmax::new(1, bins(), 0.1, f64::NAN).unwrap_err(), "variance_weight"),
    ];
    for (error, setting) in errors {
        assert!(matches!(error, Error::Setting { name, .. } if name == setting), "{error}");
    }
}

/// f32, log-scales of ±50 and targets far away: no overflow where the value fits.
#[test]
fn extreme_scales_in_single_precision() {
    let models: [Box<dyn Parametric>; 3] = [
        Box::new(Gaussian::new(2).unwrap()),
        Box::new(Laplace::new(2).unwrap()),
        Box::new(JointLaplace::new(2).unwrap()),
    ];
    for (model, power) in models.iter().zip([1.0, 1.0, 0.5]) {
        for (s, distance) in [(50f32, 1e6f32), (-50.0, 1.0), (-50.0, 1e6), (-50.0, 0.0), (50.0, 0.0)] {
            let outputs = Tensor::new(&[[0.0, 1.0, s, s]], &Device::Cpu).unwrap();
            let outputs = Var::from_tensor(&outputs).unwrap();
            let y = Tensor::new(&[[distance, 1.0 - distance]], &Device::Cpu).unwrap();
            let loss = model.loss(&outputs, &y).unwrap();
            assert_eq!(loss.dtype(), DType::F32);
            assert!(scalar(&loss).is_finite(), "s = {s}, distance {distance}: {loss}");
            let gradients = loss.backward().unwrap();
            let slopes = flat(gradients.get(&outputs).unwrap());
            assert!(slopes.iter().all(|slope| slope.is_finite()), "s = {s}, distance {distance}: {slopes:?}");
            if s < 0.0 && distance == 1e6 {
                // log loss ≈ −power · s + …: the value is huge, not cut off.
                assert!(scalar(&loss).ln() > -power * f64::from(s) + 6.0, "{loss}");
            }
        }
    }
}

#[test]
fn single_precision_agrees_with_double() {
    for (name, model, outputs) in all(1) {
        let y = rows(&[&[0.2], &[-0.9]]);
        let single = |t: &Tensor| t.to_dtype(DType::F32).unwrap();
        let loss = model.loss(&outputs, &y).unwrap();
        let low = model.loss(&single(&outputs), &single(&y)).unwrap();
        assert!((scalar(&loss) - scalar(&low)).abs() < 1e-5, "{name}");
        for (a, b) in [
            (model.mean(&outputs).unwrap(), model.mean(&single(&outputs)).unwrap()),
            (model.predict(&outputs).unwrap(), model.predict(&single(&outputs)).unwrap()),
        ] {
            assert_eq!((b.dtype(), b.dims()), (DType::F32, &[2, 1][..]), "{name}");
            crate::zoo::assert_close(&flat(&a), &flat(&b), 1e-5);
        }
    }
}

#[test]
fn outputs_may_be_views() {
    for (name, model, outputs) in all(1) {
        let view = outputs.t().unwrap().contiguous().unwrap().t().unwrap();
        assert!(!view.is_contiguous() || view.dims()[1] == 1, "{name}");
        let y = rows(&[&[0.2], &[-0.9]]);
        let at = y.unsqueeze(1).unwrap();
        let all = |outputs: &Tensor| {
            let mut values = flat(&model.loss(outputs, &y).unwrap());
            values.extend(flat(&model.mean(outputs).unwrap()));
            values.extend(flat(&model.predict(outputs).unwrap()));
            values.extend(model.log_prob(outputs, &at).unwrap().map(|l| flat(&l)).unwrap_or_default());
            values
        };
        assert_eq!(all(&view), all(&outputs), "{name}");
    }
}

#[test]
fn outputs_that_can_not_be_compared_are_refused() {
    for (name, model, outputs) in all(1) {
        let broken = (outputs * f64::NAN).unwrap();
        if ["niu", "coral"].contains(&name) {
            assert!(matches!(model.predict(&broken), Err(Error::NonFinite { .. })), "{name}");
        } else {
            assert!(scalar(&model.predict(&broken).unwrap()).is_nan(), "{name}");
        }
    }
}

const SETTINGS: [&str; 9] = [
    "kind = \"direct\"\ndim = 1\nloss = \"l2\"\n",
    "kind = \"direct\"\ndim = 3\nloss = { huber = { beta = 1.0 } }\n",
    "kind = \"gaussian\"\ndim = 1\n",
    "kind = \"laplace\"\ndim = 4\n",
    "kind = \"joint_laplace\"\ndim = 3\n",
    "kind = \"mixture_of_gaussians\"\ndim = 4\ncomponents = 8\n",
    "kind = \"conditional_vae\"\ndim = 4\n",
    "kind = \"softmax\"\ndim = 3\nl2_weight = 0.1\nvariance_weight = 0.05\nbins.uniform = { first = -75, step = 1, count = 151 }\n",
    "kind = \"ordinal\"\nhead = \"coral\"\nranks.centers = [1.0, 2.0, 4.0]\n",
];

#[test]
fn every_kind_reads_and_writes() {
    let outputs = [1, 3, 2, 8, 6, 72, 4 * 10 + 8 * 128, 453, 2];
    for (text, outputs) in SETTINGS.into_iter().zip(outputs) {
        let baseline: Baseline = toml::from_str(text).unwrap();
        assert_eq!(baseline.num_outputs(), outputs, "{text}");
        let again: Baseline = toml::from_str(&toml::to_string(&baseline).unwrap()).unwrap();
        assert_eq!(again, baseline);
    }
}

#[test]
fn a_bad_baseline_is_refused_while_it_is_read() {
    let read = |text: &str| toml::from_str::<Baseline>(text).unwrap_err().to_string();
    for text in SETTINGS {
        assert!(read(&text.replacen('\n', "\ntemperature = 1.0\n", 1)).contains("temperature"), "{text}");
    }
    assert!(read("kind = \"student\"\ndim = 1").contains("student"));
    assert!(read("kind = \"gaussian\"\ndim = 0").contains("dim"));
    assert!(read("kind = \"direct\"\ndim = 1\nloss = { huber = { beta = 0.0 } }").contains("beta"));
    assert!(read("kind = \"mixture_of_gaussians\"\ndim = 1\ncomponents = 0").contains("components"));
    assert!(read("kind = \"ordinal\"\nhead = \"niu\"\nranks.centers = [2.0, 1.0]").contains("ascending"));
    assert!(
        read("kind = \"ordinal\"\nhead = \"niu\"\nranks.uniform = { first = 0, step = 1 }").contains("count")
    );
}
