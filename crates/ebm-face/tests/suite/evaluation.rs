//! The figures of a table against numbers worked out by hand.

use std::path::Path;
use std::sync::Arc;

use crate::common::{config, network, set, zero};
use ebm_core::Grid;
use ebm_data::Image;
use ebm_data::faces::{Face, Faces, Pixels};
use ebm_face::config::{ExperimentConfig, Settings};
use ebm_face::network::ENERGY;
use ebm_face::reproduce::{Outcome, Row, evaluate};
use ebm_face::saved::{BackboneSource, RunConfig, Saved, save};
use ebm_nn::params::ParamStore;

/// Faces with these targets; what they look like is of no importance here.
fn faces(targets: &[&[f32]]) -> Arc<Faces> {
    let face = |(index, target): (usize, &&[f32])| {
        let image = Image::filled(16, 16, [100; 3]).unwrap();
        Face { name: index.to_string(), pixels: Pixels::Memory(Arc::new(image)), target: target.to_vec() }
    };
    Arc::new(Faces { faces: targets.iter().enumerate().map(face).collect(), ..Faces::default() })
}

/// The network of `method` after `edit`, saved and read back.
fn saved(config: &ExperimentConfig, method: &str, root: &Path, edit: impl Fn(&ParamStore)) -> Saved {
    let (_, store) = network(config, method, 1);
    edit(&store);
    let dir = root.join(format!("{method}-0"));
    std::fs::create_dir(&dir).unwrap();
    let trunk = BackboneSource::Own(config.trunk.clone());
    let run = RunConfig { method: method.to_owned(), seed: 0, trunk, experiment: config.clone() };
    std::fs::write(dir.join("config.toml"), run.to_toml().unwrap()).unwrap();
    save(&store, &dir, &run).unwrap();
    Saved::load(&dir, None).unwrap()
}

/// Estimates `y` whatever the image is.
fn constant(store: &ParamStore, y: &[f32]) {
    zero(store, "head.mean.fc2.weight");
    set(store, "head.mean.fc2.bias", y);
}

/// f(x, y) = `slope` · max(y₀, 0), whatever the image is: y₀ goes through the first unit of every layer.
fn ramp(store: &ParamStore, num_features: usize, slope: f32) {
    for name in store.names().iter().filter(|name| name.starts_with("head.")) {
        zero(store, name);
    }
    for (name, place, value) in [
        ("head.fc1_y.weight", 0, 1.0),
        ("head.fc2_y.weight", 0, 1.0),
        ("head.fc1_xy.weight", num_features, 1.0),
        ("head.fc2_xy.weight", 0, slope),
    ] {
        let mut values = vec![0.0; store.var(name).unwrap().elem_count()];
        values[place] = value;
        set(store, name, &values);
    }
}

fn row<'a>(outcome: &'a Outcome, method: &str, refined: bool) -> &'a Row {
    let found = outcome.rows.iter().find(|row| row.method == method && row.refined == refined);
    found.unwrap_or_else(|| panic!("no {method} among {:?}", outcome.rows))
}

#[track_caller]
fn assert_near(found: f64, expected: f64, bound: f64) {
    assert!((found - expected).abs() < bound, "{found} instead of {expected}");
}

#[test]
fn errors_of_ages_are_those_worked_out_by_hand() {
    let (mut config, dir) = (config(), tempfile::tempdir().unwrap());
    config.density = Grid::new(0.0, 100.0, 1001).unwrap();
    let num_features = 128;
    let networks = vec![
        saved(&config, "direct_l2", dir.path(), |store| constant(store, &[40.0])),
        saved(&config, "gaussian", dir.path(), |store| {
            constant(store, &[40.0]);
            zero(store, "head.log_variance.fc2.weight");
            set(store, "head.log_variance.fc2.bias", &[100f32.ln()]);
        }),
        saved(&config, ENERGY, dir.path(), |store| ramp(store, num_features, 0.1)),
    ];
    let ascent = config.refinement.ascent(3.0);
    let faces = faces(&[&[20.0], &[35.0], &[62.0]]);
    let outcome = evaluate(networks, &faces, None, Some(ascent), &mut ()).unwrap();
    assert_eq!(outcome.rows.len(), 2 * 2 + 3);
    for method in ["direct_l2", "gaussian"] {
        // |40 − 20|, |40 − 35| and |40 − 62|.
        assert_near(row(&outcome, method, false).mae, (20.0 + 5.0 + 22.0) / 3.0, 1e-4);
        // Five steps of 3 · 0.1 lead to 41.5.
        let refined = row(&outcome, method, true);
        assert_near(refined.mae, (21.5 + 6.5 + 20.5) / 3.0, 1e-4);
        assert_eq!(refined.coordinates, [refined.mae]);
    }
    // N(40, 10²): log(10 √2π) + (20² + 5² + 22²) / (2 · 10² · 3).
    let expected = 10f64.ln() + 0.5 * std::f64::consts::TAU.ln() + 909.0 / 600.0;
    assert_near(row(&outcome, "gaussian", false).nll.unwrap(), expected, 1e-4);
    assert_eq!(row(&outcome, "direct_l2", false).nll, None);

    // p(y) = 0.1 e^{0.1 y} / (e^{10} − 1) on [0, 100]: mode 100, median 10 log((e^{10} + 1) / 2), mean 100 /
    // (1 − e^{−10}) − 10.
    let e = 10f64.exp();
    let nll = ((e - 1.0) * 10.0).ln() - 0.1 * (20.0 + 35.0 + 62.0) / 3.0;
    let values = [
        ("ebm_mean", 100.0 / (1.0 - 1.0 / e) - 10.0),
        ("ebm_median", 10.0 * ((e + 1.0) / 2.0).ln()),
        ("ebm_mode", 100.0),
    ];
    for (method, value) in values {
        let row = row(&outcome, method, false);
        // Above all three ages, whose mean is 39. The grid's cells are 0.1 years wide.
        assert_near(row.mae, value - 39.0, 0.05);
        assert_near(row.nll.unwrap(), nll, 1e-3);
    }
}

#[test]
fn errors_of_poses_are_those_worked_out_by_hand_angle_by_angle() {
    let text = r#"
        extends = "head_pose_mini"
        input = { size = 16 }
        trunk = { width = 4 }
        head = { y_layers = [8, 8], hidden = 16 }
        density = { lo = -80.0, hi = 80.0, num_points = 9 }
    "#;
    let config = ExperimentConfig::parse("test", text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let networks = vec![
        saved(&config, "direct_huber", dir.path(), |store| constant(store, &[10.0, -5.0, 2.0])),
        saved(&config, ENERGY, dir.path(), |store| ramp(store, 128, 0.2)),
    ];
    // Yaw, pitch, roll.
    let faces = faces(&[&[12.0, -5.0, 0.0], &[-60.0, 5.0, 8.0]]);
    let ascent = config.refinement.ascent(0.5);
    let outcome = evaluate(networks, &faces, None, Some(ascent), &mut ()).unwrap();
    let before = row(&outcome, "direct_huber", false);
    for (found, expected) in
        before.coordinates.iter().zip([(2.0 + 70.0) / 2.0, (0.0 + 10.0) / 2.0, (2.0 + 6.0) / 2.0])
    {
        assert_near(*found, expected, 1e-4);
    }
    assert_near(before.mae, (36.0 + 5.0 + 4.0) / 3.0, 1e-4);
    // Five steps of 0.5 · 0.2 in the yaw alone: 10.5.
    let after = row(&outcome, "direct_huber", true);
    for (found, expected) in after.coordinates.iter().zip([(1.5 + 70.5) / 2.0, 5.0, 4.0]) {
        assert_near(*found, expected, 1e-4);
    }
    assert_eq!((before.coordinates.len(), after.coordinates.len()), (3, 3));
}

/// N(40, 10²) whatever the image is.
fn normal(store: &ParamStore) {
    constant(store, &[40.0]);
    zero(store, "head.log_variance.fc2.weight");
    set(store, "head.log_variance.fc2.bias", &[100f32.ln()]);
}

#[test]
fn densities_are_calibrated_on_other_images() {
    let (mut config, dir) = (config(), tempfile::tempdir().unwrap());
    config.density = Grid::new(-60.0, 140.0, 2001).unwrap();
    let networks = || {
        vec![
            Saved::load(&dir.path().join("direct_l2-0"), None).unwrap(),
            Saved::load(&dir.path().join("gaussian-0"), None).unwrap(),
        ]
    };
    saved(&config, "direct_l2", dir.path(), |store| constant(store, &[40.0]));
    saved(&config, "gaussian", dir.path(), normal);
    let given = faces(&[&[20.0], &[35.0], &[62.0]]);
    // Nine ages 2.1 standard deviations away: only a region of all that mass holds nine of ten such.
    let held_out = faces(&[&[61.0][..]; 9]);
    let outcome = evaluate(networks(), &given, Some(&held_out), None, &mut ()).unwrap();
    let [row] = &outcome.calibration[..] else { panic!("{:?}", outcome.calibration) };
    assert_eq!((row.method.as_str(), row.coordinate.as_str(), row.fold), ("gaussian", "age", None));
    let found = &row.calibration;
    assert_near(found.nll, 10f64.ln() + 0.5 * std::f64::consts::TAU.ln() + 909.0 / 600.0, 1e-3);
    // Only 35 is within 0.674 and within 1.645 standard deviations, 20 within 2.1 as well.
    for (found, width) in [(found.width_50, 13.4898), (found.width, 32.8971), (found.conformal_width, 42.0)] {
        assert_near(found, width, 0.02);
    }
    assert_near(found.coverage_50, 1.0 / 3.0, 1e-9);
    assert_near(found.coverage, 1.0 / 3.0, 1e-9);
    assert_near(found.conformal_coverage, 2.0 / 3.0, 1e-9);
    assert_near(found.conformal_width_50, 42.0, 0.02);
    // All are equally certain: the first comes first.
    for (found, expected) in row.risk_coverage.iter().zip([20.0, 12.5, 47.0 / 3.0, 47.0 / 3.0]) {
        assert_near(*found, expected, 1e-3);
    }
    assert!(evaluate(networks(), &given, None, None, &mut ()).unwrap().calibration.is_empty());
    let few = evaluate(networks(), &given, Some(&faces(&[&[61.0][..]; 8])), None, &mut ()).unwrap_err();
    assert!(few.to_string().contains('9'), "{few}");
}

#[test]
fn a_density_of_two_coordinates_is_that_worked_out_by_hand() {
    let text = r#"
        extends = "head_pose_pointing"
        input = { size = 16 }
        trunk = { kind = "resnet", layers = [1, 1, 1, 1], width = 4 }
        head = { y_layers = [8, 8], hidden = 16 }
        density = { lo = -80.0, hi = 80.0, num_points = 161 }
        frozen.grid = 0
    "#;
    let (config, dir) = (ExperimentConfig::parse("test", text).unwrap(), tempfile::tempdir().unwrap());
    let energy = saved(&config, ENERGY, dir.path(), |store| ramp(store, 128, 0.05));
    let baseline = saved(&config, "direct_l2", dir.path(), |store| constant(store, &[10.0, -5.0]));
    let given = faces(&[&[30.0, 15.0], &[-60.0, 75.0]]);
    let held_out: Vec<[f32; 2]> = (0..12).map(|i| [i as f32 * 10.0 - 60.0, 0.0]).collect();
    let held_out = faces(&held_out.iter().map(|y| &y[..]).collect::<Vec<_>>());
    let ascent = Some(config.refinement.ascent(1.0));
    let outcome = evaluate(vec![baseline, energy], &given, Some(&held_out), ascent, &mut ()).unwrap();
    // Z = 160 (80 + (e⁴ − 1) / 0.05); f is 1.5 at the first pose and 0 at the second.
    let z = 160.0 * (80.0 + (4f64.exp() - 1.0) / 0.05);
    let mode = row(&outcome, "ebm_mode", false);
    assert_near(mode.nll.unwrap(), z.ln() - 0.75, 1e-3);
    // Of the pan the mode is at the end; every tilt is as likely, with the median in the middle.
    assert_near(mode.coordinates[0], (50.0 + 140.0) / 2.0, 1e-6);
    assert_near(row(&outcome, "ebm_median", false).coordinates[1], (15.0 + 75.0) / 2.0, 1e-3);
    let [pan, tilt] = &outcome.calibration[..] else { panic!("{:?}", outcome.calibration) };
    assert_eq!((pan.coordinate.as_str(), tilt.coordinate.as_str()), ("pan", "tilt"));
    // The points of a flat density are all as high: its region is all of it.
    assert_near(tilt.calibration.width, 160.0, 1e-3);
    assert_near(tilt.calibration.nll, 160f64.ln(), 1e-3);
    assert_near(pan.calibration.nll, (z / 160.0).ln() - 0.75, 1e-3);
    assert_eq!(outcome.examples[0].density.len(), 2);
}
