//! Fits to data whose truth is known.

use candle_core::{DType, Device, Tensor};
use ebm_base::Key;
use ebm_core::EnergyModel;
use ebm_tabular::benchmark::Generated;
use ebm_tabular::model::{Ensemble, MemberFeatures};
use ebm_tabular::{
    Error, FitOptions, ModelConfig, Support, Table, TabularRegressor, TargetSpec, evaluate, refined_rmse,
};
use rand::Rng;
use rand_distr::StandardNormal;

use crate::{small, table};

/// Rows of y = ±x with equal probability for both signs, and noise with a standard deviation of 0.1.
fn fork(count: usize, seed: u64) -> Table {
    Generated::Fork.table(count, &mut Key::new(seed).rng()).unwrap().0
}

/// The entropy of the fork is log 2 more than a Gaussian's of deviation 0.1; a single Gaussian about 0 needs the deviation
/// 1 and loses 1.6 nats.
#[test]
fn two_branches_are_two_modes_where_a_gaussian_fails() {
    let (learnt, judged) = (fork(1000, 0), fork(300, 1));
    let mut config = small();
    config.training.steps = 1200;
    let fit = |method: &str| {
        let options = FitOptions { method: method.to_owned(), ..FitOptions::new("y") };
        TabularRegressor::fit(&learnt, &options, &config, &mut |_| {}).unwrap()
    };
    let energy = fit("ebm");
    let found = evaluate(&energy, &judged).unwrap();
    let truth = -(0.5 * (std::f64::consts::TAU * std::f64::consts::E).ln() + 0.1f64.ln() + 2f64.ln());
    let log_likelihood = found.log_likelihood.unwrap();
    assert!(log_likelihood > truth - 0.25 && log_likelihood < truth + 0.1, "{log_likelihood}, truth {truth}");
    let gaussian = fit("gaussian");
    let other = evaluate(&gaussian, &judged).unwrap().log_likelihood.unwrap();
    assert!(other < log_likelihood - 1.0, "{other} of a Gaussian");
    let prediction = &energy.predict(&judged.select(&[0])).unwrap()[0].targets[0];
    assert_eq!(prediction.region(0.8).unwrap().len(), 2);
    let density = found.targets[0].density.as_ref().unwrap();
    assert!((density.conformal_coverage - 0.9).abs() < 0.08, "{}", density.conformal_coverage);
    // A mean between the branches is refined to one of them.
    let [before, after] = refined_rmse(&energy, &gaussian, &judged).unwrap()[0];
    assert!(before > 0.8 && after.is_finite());
    let direct = evaluate(&fit("direct"), &judged).unwrap();
    assert!(direct.log_likelihood.is_none() && direct.targets[0].density.is_none());
}

/// The reported density is one of y: its integral over all y is 1, even if the network learns the logarithm.
#[test]
fn log_prob_is_a_density_in_the_targets_own_units() {
    let mut rng = Key::new(5).rng();
    let rows = (0..200).map(|_| {
        let x: f64 = rng.random_range(0.0..1.0);
        [x, (3.0 + x + 0.3 * rng.sample::<f64, _>(StandardNormal)).exp()]
    });
    let learnt = table("x,y", rows);
    let mut options = FitOptions::new("y");
    options.targets[0].support = Support::Positive;
    let mut config = small();
    config.training.steps = 100;
    let regressor = TabularRegressor::fit(&learnt, &options, &config, &mut |_| {}).unwrap();
    let step = 0.25;
    let line = table("x,y", (0..3000).map(|k| [0.5, step * (f64::from(k) + 0.5)]));
    let mass: f64 =
        regressor.predict(&line).unwrap().iter().map(|row| row.log_prob.unwrap().exp() * step).sum();
    assert!((mass - 1.0).abs() < 0.02, "{mass}");
}

/// A joint density of two targets gains the mutual information that their dependence is worth.
#[test]
fn two_targets_have_a_joint_density() {
    let mut rng = Key::new(7).rng();
    let mut draw = |count: usize| {
        let row = |_| {
            let [x, a, b] = [(); 3].map(|()| rng.sample::<f64, _>(StandardNormal));
            [x, x + a, x + a + 0.2 * b]
        };
        table("x,u,v", (0..count).map(row).collect::<Vec<_>>())
    };
    let (learnt, judged) = (draw(600), draw(60));
    let mut options = FitOptions::new("u");
    options.targets.push(TargetSpec::real("v"));
    let regressor = TabularRegressor::fit(&learnt, &options, &small(), &mut |_| {}).unwrap();
    let found = evaluate(&regressor, &judged).unwrap();
    let log_likelihood = found.log_likelihood.unwrap();
    let gaussian = (std::f64::consts::TAU * std::f64::consts::E).ln();
    let (joint, independent) = (-gaussian - 0.2f64.ln(), -gaussian - (1.04f64).ln() * 0.5);
    assert!(
        log_likelihood > independent + 0.5 && log_likelihood < joint + 0.15,
        "{log_likelihood}: {independent} to {joint}"
    );
    assert_eq!(found.targets.len(), 2);
}

/// y jumps between 0 and 1 at every multiple of 0.1: smooth layers learn it slowly, bins at once.
#[test]
fn bins_are_kept_where_they_help() {
    let mut rng = Key::new(11).rng();
    let mut row = |_| {
        let x: f64 = rng.random();
        [x, (x * 10.0).floor() % 2.0 + 0.1 * rng.sample::<f64, _>(StandardNormal)]
    };
    let (learnt, judged) = (table("x,y", (0..600).map(&mut row)), table("x,y", (0..200).map(&mut row)));
    let fit = |bins| {
        let mut config = small();
        config.network.bins = bins;
        let fit = TabularRegressor::fit(&learnt, &FitOptions::new("y"), &config, &mut |_| {}).unwrap();
        (fit.fitted().features.bins().len(), evaluate(&fit, &judged).unwrap().log_likelihood.unwrap())
    };
    let ((none, without), (some, with)) = (fit(0), fit(32));
    assert!((none, some) == (0, 32) && with > without + 0.5, "{none} {some}: {without} {with}");
}

#[test]
fn a_fit_depends_on_its_seed_alone_and_comes_back_from_its_folder() {
    let learnt = fork(200, 3);
    let mut config = small();
    (config.training.steps, config.members) = (60, 2);
    let fit = || TabularRegressor::fit(&learnt, &FitOptions::new("y"), &config, &mut |_| {}).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let first = fit();
    first.save(folder.path()).unwrap();
    let again = TabularRegressor::open(folder.path()).unwrap();
    let log_probs = |regressor: &TabularRegressor| evaluate(regressor, &learnt).unwrap().log_probs;
    assert_eq!(log_probs(&first), log_probs(&again));
    assert_eq!(log_probs(&first), log_probs(&fit()));
    assert!(again.is_calibrated() && again.fitted() == first.fitted());
    // The density is the mean of the members'.
    let (x, members) = (first.encode(&learnt).unwrap().x, &first.ensemble().0);
    let features = first.ensemble().features(&x, 64, &mut Key::new(0).rng()).unwrap();
    let z = Tensor::zeros((200, 1, 1), DType::F32, &Device::Cpu).unwrap();
    let p = |ensemble: &Ensemble, features: &[MemberFeatures]| {
        let p = ensemble.score(&features.to_vec(), &z).unwrap().exp().unwrap();
        p.flatten_all().unwrap().to_vec1::<f32>().unwrap()
    };
    let all = p(first.ensemble(), &features);
    let each: Vec<Vec<f32>> =
        (0..2).map(|k| p(&Ensemble(vec![members[k].clone()]), &features[k..=k])).collect();
    assert!((0..200).all(|row| (all[row] / (0.5 * (each[0][row] + each[1][row])) - 1.0).abs() < 1e-4));
    // Regions are calibrated by their masses on rows that are kept apart.
    let (fitted, held_out) = (first.fitted(), learnt.select(&first.fitted().held_out));
    assert_eq!((fitted.rows, held_out.rows(), first.largest_level()), (180, 20, 20.0 / 21.0));
    let y = |row| held_out.text(row, 1).unwrap().parse().unwrap();
    let densities = first.predict(&held_out).unwrap().into_iter().enumerate();
    let mut masses: Vec<f64> = densities.map(|(row, found)| found.targets[0].mass_of(y(row))).collect();
    masses.sort_by(f64::total_cmp);
    assert_eq!(masses, fitted.masses[0]);
    // A member or settings of another fit are noticed.
    let others = tempfile::tempdir().unwrap();
    let options = FitOptions { seed: 1, ..FitOptions::new("y") };
    TabularRegressor::fit(&learnt, &options, &config, &mut |_| {}).unwrap().save(others.path()).unwrap();
    for name in ["member-1.safetensors", "tabular.toml"] {
        let place = folder.path().join(name);
        let own = std::fs::read(&place).unwrap();
        let mut other = std::fs::read(others.path().join(name)).unwrap();
        other.extend((name == "tabular.toml").then_some(b'\n'));
        std::fs::write(&place, other).unwrap();
        let said = TabularRegressor::open(folder.path()).err().unwrap().to_string();
        assert!(said.contains(name) && said.contains("fit again"), "{said}");
        std::fs::write(&place, own).unwrap();
    }
    // Fits of versions without the forms of columns are refused in words.
    let path = folder.path().join("regressor.json");
    let whole = std::fs::read(&path).unwrap();
    let mut old: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    old["features"]["columns"][0]["kind"]["number"].as_object_mut().unwrap().remove("form").unwrap();
    std::fs::write(&path, old.to_string()).unwrap();
    let said = TabularRegressor::open(folder.path()).err().unwrap().to_string();
    assert!(said.contains("regressor.json") && said.contains("fit again"), "{said}");
    for (name, value) in [("deviation", -1.0), ("mean", 1e308)] {
        let mut wrong: serde_json::Value = serde_json::from_slice(&whole).unwrap();
        wrong["targets"][0][name] = value.into();
        std::fs::write(&path, wrong.to_string()).unwrap();
        let said = TabularRegressor::open(folder.path()).err().unwrap().to_string();
        assert!(said.contains("do not fit together"), "{said}");
    }
    std::fs::write(&path, &whole).unwrap();
    std::fs::remove_file(folder.path().join("member-0.safetensors")).unwrap();
    let said = TabularRegressor::open(folder.path()).err().unwrap();
    assert!(matches!(said, Error::Input { .. }) && said.to_string().contains("member-0"), "{said}");
    std::fs::remove_file(&path).unwrap();
    let missing = TabularRegressor::open(folder.path()).err().unwrap().to_string();
    assert!(missing.contains("regressor.json") && missing.contains("ebm fit"), "{missing}");
}

/// A single wrong value of the target, a million times too large, and one of a column leave the fit of the others as it was.
#[test]
fn a_wrong_value_spoils_no_fit() {
    let mut rng = Key::new(9).rng();
    let mut draw = |count: usize| -> Vec<[f64; 2]> {
        let row = |_| {
            let x: f64 = rng.random_range(-1.0..1.0);
            [x, 2.0 * x + 0.1 * rng.sample::<f64, _>(StandardNormal)]
        };
        (0..count).map(row).collect()
    };
    let (mut rows, judged) = (draw(400), table("x,y", draw(200)));
    (rows[7][1], rows[9][0]) = (1e12, -1e12);
    let mut said = vec![];
    let mut say = |text: &str| said.push(text.to_owned());
    let regressor =
        TabularRegressor::fit(&table("x,y", rows), &FitOptions::new("y"), &small(), &mut say).unwrap();
    let found = evaluate(&regressor, &judged).unwrap();
    assert!(found.targets[0].rmse < 0.15, "{}", found.targets[0].rmse);
    let far = "1 rows have a \"y\" far from all others, such as 1000000000000";
    assert!(said.iter().any(|text| text.starts_with(far)), "{said:?}");
}

/// The mean of the true log p over many rows is minus the theoretical entropy.
#[test]
fn generated_sets_have_the_density_that_they_name() {
    let tau = std::f64::consts::TAU;
    let gaussian = 0.5 * (tau * std::f64::consts::E).ln() + 0.1f64.ln();
    // E log r of r = 1 + x, x uniform: 2 log 2 − 1; the ring's noise changes it by less than 0.01.
    let entropies = [gaussian + 2f64.ln(), gaussian + tau.ln() + 2.0 * 2f64.ln() - 1.0];
    for (set, entropy) in Generated::ALL.into_iter().zip(entropies) {
        let (table, truth) = set.table(20_000, &mut Key::new(3).rng()).unwrap();
        let mean = truth.iter().sum::<f64>() / truth.len() as f64;
        assert!((mean + entropy).abs() < 0.02, "{}: {mean}, {}", set.name(), -entropy);
        assert_eq!(table.rows(), 20_000);
    }
}

/// A baseline of several targets has marginal densities too.
#[test]
fn baselines_have_marginals() {
    let (learnt, _) = Generated::Ring.table(300, &mut Key::new(4).rng()).unwrap();
    let mut options = FitOptions { method: "gaussian".to_owned(), ..FitOptions::new("u") };
    options.targets.push(TargetSpec::real("v"));
    let mut config = small();
    config.density.samples = 128;
    let regressor = TabularRegressor::fit(&learnt, &options, &config, &mut |_| {}).unwrap();
    let judged = learnt.select(&(0..20).collect::<Vec<_>>());
    let found = evaluate(&regressor, &judged).unwrap();
    let all = regressor.predict(&judged).unwrap();
    for (k, target) in found.targets.iter().enumerate() {
        let density = target.density.as_ref().unwrap();
        // A Gaussian with the deviation of the ring's coordinates: about 1.1 at the middle x.
        let width = all.iter().map(|row| row.targets[k].width(0.9).unwrap()).sum::<f64>() / 20.0;
        assert!((width - 2.0 * 1.645 * 1.1).abs() < 0.8, "{width}");
        assert!((density.coverage - 0.9).abs() < 0.12, "{}", density.coverage);
    }
}

/// Rows that contradict each other: y is about 0 with weight 3 and about 10 with weight 1, as often for each x. The density
/// has the mass 3/4 at 0, and the mean of an L2 regression is 10/4. Rows of weight 0 say 20.
#[test]
fn weights_are_the_masses_of_contradicting_rows() {
    let mut rng = Key::new(3).rng();
    let rows = (0..600).map(|k| {
        let (y, weight) = [(0.0, 3.0), (10.0, 1.0), (20.0, 0.0)][k % 3];
        [f64::from(u8::from(k % 2 == 0)), weight, y + rng.sample::<f64, _>(StandardNormal)]
    });
    let learnt = table("x,w,y", rows);
    let mut config = small();
    (config.calibration, config.training.steps) = (0.0, 800);
    let judged = table("x,w", [[0.0, 1.0], [1.0, 1.0]]);
    let predict = |method: &str, weight: Option<&str>| {
        let mut options = FitOptions {
            method: method.to_owned(),
            weight: weight.map(str::to_owned),
            ..FitOptions::new("y")
        };
        options.roles.ignored.push("w".to_owned());
        TabularRegressor::fit(&learnt, &options, &config, &mut |_| {}).unwrap().predict(&judged).unwrap()
    };
    for method in ["ebm", "mixture"] {
        for prediction in predict(method, Some("w")) {
            let masses = [5.0, 15.0].map(|y| prediction.targets[0].cdf(y));
            assert!((masses[0] - 0.75).abs() < 0.08 && masses[1] > 0.97, "{method}: {masses:?}");
        }
        for prediction in predict(method, None) {
            let masses = [5.0, 15.0].map(|y| prediction.targets[0].cdf(y));
            assert!(
                (masses[0] - 1.0 / 3.0).abs() < 0.08 && (masses[1] - 2.0 / 3.0).abs() < 0.08,
                "{method}: {masses:?}"
            );
        }
    }
    for prediction in predict("direct", Some("w")) {
        assert!((prediction.mean[0] - 2.5).abs() < 0.8, "{}", prediction.mean[0]);
    }
}

#[test]
fn what_is_no_weight_is_named() {
    let fit = |weight: &str| {
        let rows: String = (0..40)
            .map(|k| format!("{},{},{}\n", k * 7 % 11, if k == 5 { weight } else { "0" }, k * k))
            .collect();
        let options = FitOptions { weight: Some("w".to_owned()), ..FitOptions::new("y") };
        let table = Table::parse("cars", &format!("x,w,y\n{rows}")).unwrap();
        TabularRegressor::fit(&table, &options, &small(), &mut |_| {}).map(|_| ()).unwrap_err().to_string()
    };
    for weight in ["", "-1", "many"] {
        let error = fit(weight);
        assert!(error.contains("cars, line 7, column w") && error.contains("numbers from 0 on"), "{error}");
    }
    let rows = "1,2024-01-01,1\n".to_owned() + &"1,2024-01-02,2\n".repeat(39);
    let dated = Table::parse("cars", &format!("x,w,y\n{rows}")).unwrap();
    let options = FitOptions { weight: Some("w".to_owned()), ..FitOptions::new("y") };
    let error = TabularRegressor::fit(&dated, &options, &small(), &mut |_| {});
    assert!(error.err().unwrap().to_string().contains("cars, line 2, column w"));
    assert!(fit("0").contains("0 rows to learn from with a weight above 0 are too few"), "{}", fit("0"));
    assert!(fit("2").contains("1 rows to learn from with a weight above 0 are too few"), "{}", fit("2"));
}

/// The fork is two Gaussians. One alone loses more than a nat to the energy-based model.
#[test]
fn auto_keeps_the_mixture_where_it_suffices_and_else_the_energy_model() {
    let learnt = fork(300, 6);
    let mut config = small();
    config.training.steps = 250;
    for (components, expected) in [(4, "mixture"), (1, "ebm")] {
        for method in config.methods.iter_mut().filter(|method| method.key == "mixture") {
            method.model = ModelConfig::Mixture { components };
        }
        let mut said = vec![];
        let mut fit = |method: &str| {
            let options = FitOptions { method: method.to_owned(), ..FitOptions::new("y") };
            TabularRegressor::fit(&learnt, &options, &config, &mut |text| said.push(text.to_owned())).unwrap()
        };
        // The fit is that of the method alone.
        let [found, alone] = [fit("auto"), fit(expected)];
        assert_eq!((found.fitted(), &*found.fitted().method), (alone.fitted(), expected));
        // The network judges a fifth of the 270 rows that are learnt from.
        let kept = format!(
            "{} is kept: on 54 validation rows the mean log p is",
            config.method(expected).unwrap().title
        );
        assert!(said.iter().any(|text| text.starts_with(&kept)), "{said:?}");
    }
}

/// Few rows in an update and a high rate make the validation rise and fall, step by step the same in all fits. A fit ends
/// that many updates after its best one, so that the best one of a more patient fit comes later by more than that.
#[test]
fn training_ends_when_patience_is_spent() {
    let learnt = fork(60, 3);
    let best = |patience: usize| {
        let mut config = small();
        let training = &mut config.training;
        (training.steps, training.batch, training.learning_rate) = (60, 2, 0.05);
        (training.validate_every, training.patience) = (1, patience);
        let options = FitOptions { method: "direct".to_owned(), ..FitOptions::new("y") };
        TabularRegressor::fit(&learnt, &options, &config, &mut |_| {}).unwrap().fitted().steps[0]
    };
    let best = [1, 2, 4, 8, 16, 60].map(|patience| (patience, best(patience)));
    for pair in best.windows(2) {
        let [(patience, less), (_, more)] = [pair[0], pair[1]];
        assert!(more == less || more > less + patience, "{best:?}");
    }
    assert!(best[0].1 < best[5].1, "{best:?}");
}

/// A search keeps settings with which the fit comes back from its folder, and says them.
#[test]
fn a_search_is_as_good_in_validation_and_keeps_its_settings() {
    let mut config = small();
    (config.members, config.training.steps, config.training.patience) = (2, 50, 50);
    let mut said = Vec::new();
    let search = Some(std::time::Duration::from_millis(1500));
    let options = FitOptions { search, ..FitOptions::new("y") };
    let fit = TabularRegressor::fit(&fork(60, 0), &options, &config, &mut |text| said.push(text.to_owned()))
        .unwrap();
    let text = said.iter().find(|text| text.contains("others tried")).unwrap();
    let better: f64 = text.split("better by ").nth(1).unwrap().split(':').next().unwrap().parse().unwrap();
    assert!(better >= 0.0 && !text.starts_with('0'), "{text}");
    let kept = fit.config();
    assert!(text.contains(&format!("network.width={} ", kept.network.width)), "{text}");
    assert!(text.contains(&format!("training.learning_rate={} ", kept.training.learning_rate)), "{text}");
    let folder = tempfile::tempdir().unwrap();
    fit.save(folder.path()).unwrap();
    let rows = fork(5, 1);
    let mean = |fit: &TabularRegressor| fit.predict(&rows).unwrap()[0].mean[0];
    assert_eq!(mean(&TabularRegressor::open(folder.path()).unwrap()), mean(&fit));
}
