//! Bad settings and inputs, models that break their contract, and scores that are not finite.

use candle_core::{DType, Device, Tensor, Var};
use ebm_core::parametric::GaussianMixtureDensity;
use ebm_core::{
    DenoisingScoreMatching, Derivatives, DirectionalDerivatives, Directions, EnergyModel, Error,
    GaussianMixture, InfoNce, IouStratified, JointNce, KullbackLeibler, LangevinNll, MonteCarloNll,
    NoiseContrastive, NoiseContrastivePlus, Objective, Order, Proposal, Result, ScoreMatching,
    SelfNormalized,
};
use rand::RngCore;

use crate::network::Network;
use crate::zoo::{Function, flat, rng};

const EXACT: Derivatives = Derivatives::Exact;
const ALL: Directions = Directions::Coordinates;

fn proposal() -> GaussianMixture {
    GaussianMixture::isotropic(&[0.3], 2).unwrap()
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F64, &Device::Cpu).unwrap()
}

/// Objective with a given model behind a trait object.
type Loss<M> = Box<dyn Fn(&M, &<M as EnergyModel>::Features, &Tensor) -> Result<Tensor>>;

/// Every objective with M samples.
fn every<M: EnergyModel + 'static>(num_samples: usize) -> Vec<(&'static str, Loss<M>)> {
    fn boxed<M: EnergyModel>(objective: impl Objective + 'static) -> Loss<M> {
        Box::new(move |model, x, y| objective.loss(model, x, y, &mut rng(0)))
    }
    let proposal = proposal();
    let kld = |normalize_weights| {
        let (proposal, label) = (proposal.clone(), proposal.clone());
        KullbackLeibler { proposal, num_samples, label, normalize_weights }
    };
    let joint = move |model: &M, x: &M::Features, y: &Tensor| {
        let q = GaussianMixtureDensity::new(&zeros(&[2, 1]), zeros(&[2, 1, 2]), zeros(&[2, 1, 2]))?;
        JointNce { proposal: &q, num_samples }.loss(model, x, y, &mut rng(0))
    };
    let differences = Derivatives::Differences { step: 0.1 };
    let dsm = DenoisingScoreMatching { sigma: 0.3, num_samples, derivatives: EXACT, directions: ALL };
    vec![
        ("ml_is", boxed(MonteCarloNll { proposal: proposal.clone(), num_samples })),
        ("kld_is", boxed(kld(false))),
        ("kld_is normalized", boxed(kld(true))),
        ("nce", boxed(NoiseContrastive { proposal: proposal.clone(), num_samples })),
        ("nce_plus", boxed(NoiseContrastivePlus { proposal: proposal.clone(), num_samples, beta: 0.1 })),
        ("info_nce", boxed(InfoNce { proposal: proposal.clone(), num_samples, temperature: 1.0 })),
        ("snl", boxed(SelfNormalized { proposal: proposal.clone(), num_samples })),
        ("joint_nce", Box::new(joint)),
        ("ml_mcmc", boxed(LangevinNll { num_samples, steps: 2, step_size: 0.1 })),
        ("dsm", boxed(dsm.clone())),
        ("dsm differences", boxed(DenoisingScoreMatching { derivatives: differences, ..dsm })),
        ("sm", boxed(ScoreMatching { derivatives: EXACT, directions: ALL })),
        ("sm differences", boxed(ScoreMatching { derivatives: differences, directions: ALL })),
    ]
}

#[test]
fn bad_targets() {
    let nan = Tensor::new(&[[0.0, 1.0], [f64::NAN, 0.0]], &Device::Cpu).unwrap();
    let infinite = Tensor::new(&[[0.0, 1.0], [0.0, f64::INFINITY]], &Device::Cpu).unwrap();
    let (network, x) = (Network::new(), Network::x(DType::F64));
    for (name, loss) in every::<Network>(4) {
        let refuse = |y: &Tensor| loss(&network, &x, y).unwrap_err();
        assert!(matches!(refuse(&zeros(&[0, 2])), Error::Empty { .. }), "{name}");
        assert!(matches!(refuse(&zeros(&[2, 0])), Error::Empty { .. }), "{name}");
        assert!(matches!(refuse(&zeros(&[2])), Error::Shape { .. }), "{name}");
        assert!(matches!(refuse(&zeros(&[2, 1, 2])), Error::Shape { .. }), "{name}");
        assert!(matches!(refuse(&nan), Error::NonFinite { index: 2, .. }), "{name}");
        assert!(matches!(refuse(&infinite), Error::NonFinite { index: 3, .. }), "{name}");
    }
}

#[test]
fn no_samples() {
    let (network, x, y) = (Network::new(), Network::x(DType::F64), Network::y(DType::F64));
    for (name, loss) in every::<Network>(0) {
        match loss(&network, &x, &y) {
            Err(error) => {
                assert!(matches!(error, Error::Setting { name: "num_samples", .. }), "{name}: {error}")
            }
            Ok(_) => assert!(name.starts_with("sm"), "{name}"),
        }
    }
}

#[track_caller]
fn assert_refused(objective: &impl Objective, setting: &str) {
    let (network, x, y) = (Network::new(), Network::x(DType::F64), Network::y(DType::F64));
    let error = objective.loss(&network, &x, &y, &mut rng(0)).unwrap_err();
    assert!(matches!(error, Error::Setting { name, .. } if name == setting), "{error}");
}

#[test]
fn bad_settings() {
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_refused(&InfoNce { proposal: proposal(), num_samples: 1, temperature: bad }, "temperature");
        assert_refused(&NoiseContrastivePlus { proposal: proposal(), num_samples: 1, beta: bad }, "beta");
        assert_refused(&LangevinNll { num_samples: 1, steps: 1, step_size: bad }, "step_size");
        let derivatives = Derivatives::Differences { step: bad };
        assert_refused(&ScoreMatching { derivatives, directions: ALL }, "step");
        let dsm = DenoisingScoreMatching { sigma: 0.1, num_samples: 1, derivatives, directions: ALL };
        assert_refused(&dsm, "step");
        assert_refused(&DenoisingScoreMatching { sigma: bad, derivatives: EXACT, ..dsm }, "sigma");
    }
    assert_refused(&LangevinNll { num_samples: 1, steps: 0, step_size: 0.1 }, "steps");
    let directions = Directions::Random { count: 0 };
    assert_refused(&ScoreMatching { derivatives: EXACT, directions }, "count");
    let dsm = DenoisingScoreMatching { sigma: 0.1, num_samples: 1, derivatives: EXACT, directions };
    assert_refused(&dsm, "count");
}

/// Proposal whose samples and densities have given shapes.
struct Misshapen([usize; 3], [usize; 2]);

impl Proposal for Misshapen {
    fn sample(&self, _: &Tensor, _: usize, _: &mut dyn RngCore) -> Result<Tensor> {
        Ok(zeros(&self.0))
    }
    fn log_prob(&self, _: &Tensor, _: &Tensor) -> Result<Tensor> {
        Ok(zeros(&self.1))
    }
}

#[test]
fn a_proposal_of_the_wrong_shape() {
    let (network, x, y) = (Network::new(), Network::x(DType::F64), Network::y(DType::F64));
    for (samples, log_q, what) in [
        ([2, 3, 2], [2, 4], "the result of Proposal::sample"),
        ([2, 4, 1], [2, 4], "the result of Proposal::sample"),
        ([2, 4, 2], [2, 1], "the result of Proposal::log_prob"),
        ([2, 4, 2], [1, 4], "the result of Proposal::log_prob"),
    ] {
        let proposal = &Misshapen(samples, log_q);
        let num_samples = 4;
        for loss in [
            MonteCarloNll { proposal, num_samples }.loss(&network, &x, &y, &mut rng(0)),
            NoiseContrastive { proposal, num_samples }.loss(&network, &x, &y, &mut rng(0)),
            InfoNce { proposal, num_samples, temperature: 1.0 }.loss(&network, &x, &y, &mut rng(0)),
            SelfNormalized { proposal, num_samples }.loss(&network, &x, &y, &mut rng(0)),
        ] {
            assert!(matches!(loss.unwrap_err(), Error::Shape { what: w, .. } if w == what));
        }
    }
    // NCE asks for the density of the target too, which must be (B, 1); KLD-IS for the label's.
    let nce = NoiseContrastive { proposal: Misshapen([2, 4, 2], [2, 4]), num_samples: 4 };
    assert!(matches!(nce.loss(&network, &x, &y, &mut rng(0)).unwrap_err(), Error::Shape { .. }));
    let label = Misshapen([2, 4, 2], [2, 1]);
    let kld = KullbackLeibler { proposal: proposal(), num_samples: 4, label, normalize_weights: true };
    assert!(matches!(kld.loss(&network, &x, &y, &mut rng(0)).unwrap_err(), Error::Shape { .. }));
}

/// Model whose f, derivatives and b have given shapes.
#[derive(Clone, Copy)]
struct Odd {
    second: Option<[usize; 2]>,
    first: [usize; 2],
    b: usize,
}

impl EnergyModel for Odd {
    type Features = ();
    fn score(&self, (): &(), y: &Tensor) -> Result<Tensor> {
        Ok(y.sum(2)?)
    }
    fn derivatives_along(&self, (): &(), y: &Tensor, _: &Tensor, _: Order) -> Result<DirectionalDerivatives> {
        let second = self.second.map(|shape| zeros(&shape));
        Ok(DirectionalDerivatives { value: y.sum(2)?, first: zeros(&self.first), second })
    }
    fn log_normalizer(&self, (): &()) -> Result<Tensor> {
        Ok(zeros(&[self.b]))
    }
}

#[test]
fn a_model_of_the_wrong_shape() {
    let wrong = Function::new(|y: &Tensor| Ok(y.clone()));
    for (name, loss) in every(4) {
        // The exact derivatives and log Z are not there at all.
        let error = loss(&wrong, &(), &zeros(&[2, 2])).unwrap_err();
        let expected = match name {
            "sm" | "dsm" | "snl" => matches!(error, Error::Unsupported { .. }),
            _ => matches!(error, Error::Shape { .. }),
        };
        assert!(expected, "{name}: {error}");
    }
    let y = zeros(&[2, 2]);
    let sm = ScoreMatching { derivatives: EXACT, directions: ALL };
    let refuse = |model: Odd| sm.loss(&model, &(), &y, &mut rng(0)).unwrap_err();
    let right = Odd { second: Some([2, 1]), first: [2, 1], b: 2 };
    assert!(sm.loss(&right, &(), &y, &mut rng(0)).is_ok());
    assert!(matches!(refuse(Odd { first: [1, 2], ..right }), Error::Shape { .. }));
    assert!(matches!(refuse(Odd { second: Some([2, 2]), ..right }), Error::Shape { .. }));
    let error = refuse(Odd { second: None, ..right });
    assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains("second"), "{error}");

    let snl = SelfNormalized { proposal: proposal(), num_samples: 3 };
    assert!(snl.loss(&right, &(), &y, &mut rng(0)).is_ok());
    let error = snl.loss(&Odd { b: 1, ..right }, &(), &y, &mut rng(0)).unwrap_err();
    assert!(
        matches!(error, Error::Shape { what: "the result of EnergyModel::log_normalizer", .. }),
        "{error}"
    );
}

#[test]
fn what_is_not_offered_has_a_remedy() {
    let model = Function::new(|y: &Tensor| Ok(y.sum(2)?));
    let y = zeros(&[2, 2]);
    let message = |objective: &dyn Fn() -> Result<Tensor>| objective().unwrap_err().to_string();
    let sm = ScoreMatching { derivatives: EXACT, directions: ALL };
    assert!(message(&|| sm.loss(&model, &(), &y, &mut rng(0))).contains("Derivatives::Differences"));
    let snl = SelfNormalized { proposal: proposal(), num_samples: 1 };
    assert!(message(&|| snl.loss(&model, &(), &y, &mut rng(0))).contains("log_normalizer"));
    let pool = IouStratified::new(10, &mut rng(0)).unwrap();
    let nll = MonteCarloNll { proposal: &pool, num_samples: 1 };
    let error = nll.loss(&model, &(), &zeros(&[2, 4]), &mut rng(0)).unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { .. }) && error.to_string().contains("QualityRegression"),
        "{error}"
    );
}

/// f with a given value at the candidate of this index in every row, and log Z, by a network.
struct Broken {
    value: f64,
    index: usize,
    network: Network,
}

impl EnergyModel for Broken {
    type Features = Tensor;
    fn score(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        let f = self.network.score(x, y)?;
        let (batch, count) = f.dims2()?;
        let mask = (0..batch * count).map(|i| u8::from(i % count == self.index)).collect();
        let mask = Tensor::from_vec(mask, (batch, count), f.device())?;
        Ok(mask.where_cond(&(f.zeros_like()? + self.value)?, &f)?)
    }
    fn derivatives_along(
        &self,
        x: &Tensor,
        y: &Tensor,
        v: &Tensor,
        order: Order,
    ) -> Result<DirectionalDerivatives> {
        let mut found = self.network.derivatives_along(x, y, v, order)?;
        found.first = (found.first * self.value)?;
        Ok(found)
    }
    fn log_normalizer(&self, x: &Tensor) -> Result<Tensor> {
        self.network.log_normalizer(x)
    }
}

#[test]
fn a_score_that_is_nan_gives_a_loss_that_is_nan() {
    for (name, loss) in every::<Broken>(4) {
        for index in [0, 1, 3] {
            let model = Broken { value: f64::NAN, index, network: Network::new() };
            let (x, y) = (Network::x(DType::F64), Network::y(DType::F64));
            let loss = flat(&loss(&model, &x, &y).unwrap())[0];
            // Score matching has a single candidate, of which differences see three.
            assert!(loss.is_nan() || (name == "sm differences" && index > 2), "{name}, {index}: {loss}");
        }
    }
}

#[test]
fn kld_is_allows_no_density_where_the_label_has_no_weight() {
    // One sample at 50 σ of the label, where its density is below the smallest number.
    struct Far;
    impl Proposal for Far {
        fn sample(&self, _: &Tensor, _: usize, _: &mut dyn RngCore) -> Result<Tensor> {
            Ok(Tensor::new(&[[[0.1], [-0.1], [50.0]]], &Device::Cpu)?)
        }
        fn log_prob(&self, _: &Tensor, _: &Tensor) -> Result<Tensor> {
            Ok(zeros(&[1, 3]))
        }
    }
    let slope = Var::new(0.5, &Device::Cpu).unwrap();
    let model = Function::new(|y: &Tensor| {
        let f = y.squeeze(2)?.broadcast_mul(&slope)?;
        let nowhere = f.zeros_like()?.log()?;
        Ok(y.squeeze(2)?.lt(1.0)?.where_cond(&f, &nowhere)?)
    });
    let label = GaussianMixture::isotropic(&[1.0], 1).unwrap();
    for normalize_weights in [false, true] {
        let objective =
            KullbackLeibler { proposal: Far, num_samples: 3, label: label.clone(), normalize_weights };
        let loss = objective.loss(&model, &(), &zeros(&[1, 1]), &mut rng(0)).unwrap();
        // The two others have equal weights and f = ±0.05: log of the mean of e^f over three, and nothing
        // more.
        let want = ((0.05f64.exp() + (-0.05f64).exp()) / 3.0).ln();
        assert!((flat(&loss)[0] - want).abs() < 1e-15, "{}", flat(&loss)[0]);
        let gradient = flat(loss.backward().unwrap().get(&slope).unwrap())[0];
        assert!((gradient - 0.1 * 0.05f64.tanh()).abs() < 1e-15, "{gradient}");
    }
}

#[test]
fn a_rival_without_density_does_not_count() {
    // f = −∞ at one sample.
    for (name, loss) in every::<Broken>(4) {
        let model = Broken { value: f64::NEG_INFINITY, index: 3, network: Network::new() };
        let (x, y) = (Network::x(DType::F64), Network::y(DType::F64));
        let loss = loss(&model, &x, &y).unwrap();
        match name {
            "ml_is" | "nce" | "nce_plus" | "info_nce" | "snl" | "joint_nce" => {
                let gradients = loss.backward().unwrap();
                let gradient = flat(gradients.get(&model.network.b).unwrap());
                assert!(
                    flat(&loss)[0].is_finite() && gradient.iter().all(|g| g.is_finite()),
                    "{name}: {gradient:?}"
                );
            }
            // The label gives it weight, so that its divergence from the model is infinite.
            "kld_is" | "kld_is normalized" => assert_eq!(flat(&loss)[0], f64::INFINITY, "{name}"),
            _ => {}
        }
    }
}
