//! scratch
use ebm_core::*; use ebm_toy::*; use ebm_seed::Key; use candle_core::Device;
#[global_allocator] static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let points = Problem::Dataset1.points(2000, &mut Key::new(0).rng());
    let which = std::env::args().nth(1).unwrap_or("ml_is".into());
    let net = if std::env::args().nth(2).as_deref() == Some("bmvc") { Network::Bmvc } else { Network::Eccv };
    let model = ToyEnergy::new(net, Key::new(0), &Device::Cpu)?;
    let q = AnyProposal::SharedGaussian(SharedOffsets(GaussianMixture::isotropic(&[0.1, 0.8], 1)?));
    let g = GaussianMixture::isotropic(&[0.1, 0.8], 1)?;
    let m = 1024;
    let objective = match which.as_str() {
        "ml_is" => AnyObjective::MlIs(MonteCarloNll { proposal: q, num_samples: m }),
        "ml_is_own" => AnyObjective::MlIs(MonteCarloNll { proposal: AnyProposal::Gaussian(g), num_samples: m }),
        "kld" => AnyObjective::KldIs(KullbackLeibler { proposal: q, num_samples: m, label: GaussianMixture::isotropic(&[0.025],1)?, normalize_weights: false }),
        "nce" => AnyObjective::Nce(NoiseContrastive { proposal: q, num_samples: m }),
        "nce_plus" => AnyObjective::NcePlus(NoiseContrastivePlus { proposal: g, num_samples: m, beta: 0.025 }),
        "mcmc" => AnyObjective::MlMcmc(LangevinNll { num_samples: m, steps: 16, step_size: 0.05 }),
        "sm" => AnyObjective::Sm(ScoreMatching { derivatives: Derivatives::Exact, directions: Directions::Coordinates }),
        "dsm" => AnyObjective::Dsm(DenoisingScoreMatching { sigma: 0.2, num_samples: m, derivatives: Derivatives::Exact, directions: Directions::Coordinates }),
        _ => AnyObjective::Snl(SelfNormalized { proposal: q, num_samples: m }),
    };
    let start = std::time::Instant::now();
    let epochs = 5;
    let schedule = Schedule { epochs, batch_size: 32, learning_rate: 1e-3 };
    let history = train("x", &schedule, &points, model.parameters(), Key::new(1), |x, y, key| {
        Ok(objective.loss(&model, &model.features(x)?, y, &mut key.rng())?)
    })?;
    println!("{which} {:.3} ms/step {history:?}", start.elapsed().as_secs_f64() * 1e3 / (63 * epochs) as f64);
    Ok(())
}
