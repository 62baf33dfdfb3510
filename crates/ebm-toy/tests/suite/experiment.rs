//! Small runs of the experiment: every method trains, and results depend on the seed alone.

use ebm_base::Key;
use ebm_core::Grid;
use ebm_experiment::config::Settings;
use ebm_toy::{
    Dataset, Error, Experiment, Job, Method, Points, Problem, Reference, Row, Schedule, Trained, run_all,
    training_points,
};

fn small() -> Experiment {
    let mut experiment = Experiment::embedded("figure2").unwrap();
    experiment.schedule = Schedule { epochs: 6, batch_size: 32, learning_rate: 3e-3 };
    experiment.evaluation_points = 128;
    experiment
}

/// Reduces the number of samples of a method that has samples.
fn with_samples(method: &Method, count: usize) -> Method {
    let text =
        toml::to_string(method).unwrap().replace("num_samples = 1024", &format!("num_samples = {count}"));
    toml::from_str(&text).unwrap()
}

fn rows(experiment: &Experiment, methods: &[Method], seeds: u64, threads: usize) -> Vec<Row> {
    let dataset = Dataset::of_problem(Problem::Dataset1, experiment.evaluation_points);
    let jobs: Vec<Job> = methods
        .iter()
        .flat_map(|method| (0..seeds).map(move |seed| (method, seed)))
        .map(|(method, seed)| Job { method, dataset: &dataset, seed })
        .collect();
    run_all(experiment, &jobs, threads, &|_| {}).unwrap().into_iter().map(|(row, _)| row).collect()
}

#[test]
fn every_method_gets_closer_to_the_truth() {
    let experiment = small();
    let methods: Vec<Method> = experiment.methods(Problem::Dataset1).map(|m| with_samples(m, 32)).collect();
    assert_eq!(methods.len(), 11);
    let before = rows(
        &Experiment { schedule: Schedule { epochs: 0, ..experiment.schedule.clone() }, ..experiment.clone() },
        &methods,
        1,
        2,
    );
    let after = rows(&experiment, &methods, 1, 2);
    for (before, after) in before.iter().zip(&after) {
        let (before, after_kl) = (before.kl.unwrap(), after.kl.unwrap());
        assert!(after_kl.is_finite() && after.final_loss.is_finite(), "{after:?}");
        // Score matching learns nothing from a network that is piecewise linear in y, and denoising learns little in
        // such a short training.
        if !["SM", "DSM"].contains(&after.method.as_str()) {
            assert!(after_kl < before - 0.3, "{}: {before} {after_kl}", after.method);
        }
    }
}

#[test]
fn results_depend_on_the_seed_and_not_on_the_threads() {
    let experiment = Experiment { schedule: Schedule { epochs: 1, ..small().schedule }, ..small() };
    let methods: Vec<Method> = experiment
        .methods(Problem::Dataset1)
        .filter(|method| ["Gaussian", "ML-IS"].contains(&method.name.as_str()))
        .map(|method| with_samples(method, 32))
        .collect();
    let (one, two) = (rows(&experiment, &methods, 2, 1), rows(&experiment, &methods, 2, 3));
    for (one, two) in one.iter().zip(&two) {
        assert_eq!((one.kl, one.final_loss, one.seed), (two.kl, two.final_loss, two.seed));
    }
    assert_ne!(one[0].kl, one[1].kl);
}

#[test]
fn own_points_are_compared_with_held_out_ones_and_with_no_truth() {
    // y = ±0.5 with noise of 0.1 for every x: the best density has −log p of log 2 + ½ log(2πe·0.1²) =
    // −0.191 nats, the best Gaussian ½ log(2πe·0.26) = 0.746.
    let mut rng = Key::new(7).rng();
    let mut points = Points::default();
    for index in 0..1000 {
        let sign = if index % 2 == 0 { 0.5 } else { -0.5 };
        points.x.push(rand::Rng::random_range(&mut rng, -3.0..3.0));
        points.y.push(sign + 0.1 * rand::Rng::sample::<f32, _>(&mut rng, rand_distr::StandardNormal));
    }
    let dataset = Dataset::of_points(&points, Problem::Dataset1).unwrap();
    let Reference::HeldOut(held_out) = &dataset.reference else { unreachable!() };
    assert_eq!((dataset.points.x.len(), held_out.x.len()), (800, 200));
    assert!(held_out.x.iter().all(|x| !dataset.points.x.contains(x)));

    let mut experiment = small();
    experiment.schedule.epochs = 40;
    let nll = |name: &str| {
        let method = experiment.methods(Problem::Dataset1).find(|method| method.name == name).unwrap();
        let (row, _) = experiment.run(&with_samples(method, 64), &dataset, 0).unwrap();
        assert_eq!((row.dataset, row.kl), ("data", None));
        row.held_out_nll.unwrap()
    };
    // 200 points determine the mean of −log p up to about 0.05.
    let (gaussian, energy) = (nll("Gaussian"), nll("ML-IS"));
    assert!((gaussian - 0.746).abs() < 0.1, "{gaussian}");
    assert!(energy > -0.3 && energy < 0.2, "{energy}");

    let of = |x: &[f32], y: &[f32]| {
        let points = Points { x: x.to_vec(), y: y.to_vec() };
        Dataset::of_points(&points, Problem::Dataset1).err().map(|error| error.to_string())
    };
    assert!(of(&[0.0], &[0.0]).unwrap().contains(": 1 points;"));
    assert!(of(&[0.0, 1.0], &[0.0, 40.0]).unwrap().contains("one with 40; give"));
    assert_eq!(of(&[0.0, 1.0], &[0.0, 3.0]), None);
}

#[test]
fn a_training_that_leaves_the_numbers_is_reported() {
    let experiment =
        Experiment { schedule: Schedule { epochs: 3, batch_size: 32, learning_rate: 1e30 }, ..small() };
    let method = experiment.methods.iter().find(|method| method.name == "Gaussian").unwrap();
    let points = training_points(Problem::Dataset1);
    let error = experiment.train(method, &points, Key::new(0)).err().unwrap();
    assert!(matches!(error, Error::NonFinite(_)), "{error}");
    let schedule = Schedule { epochs: 1, batch_size: 0, learning_rate: 1.0 };
    let experiment = Experiment { schedule, ..small() };
    let error = experiment.begin(&experiment.methods[0], points, Key::new(0)).err().unwrap();
    assert!(matches!(error, Error::Config { .. }), "{error}");
}

#[test]
fn a_training_in_slices_is_the_same_training() {
    let experiment =
        Experiment { schedule: Schedule { epochs: 2, batch_size: 32, learning_rate: 3e-3 }, ..small() };
    for name in ["Gaussian", "ML-IS", "NCE, learned proposal"] {
        let method = with_samples(experiment.methods.iter().find(|method| method.name == name).unwrap(), 16);
        let points = Problem::Dataset1.points(100, &mut Key::new(5).rng());
        let (whole, losses) = experiment.train(&method, &points, Key::new(6)).unwrap();
        let mut course = experiment.begin(&method, points, Key::new(6)).unwrap();
        while course.history().len() < 2 {
            let mut left = 1;
            course.train(|_| std::mem::replace(&mut left, 0) > 0).unwrap();
        }
        assert_eq!(course.history(), losses);
        let grid = Grid::new(-3.0, 3.0, 33).unwrap();
        let densities = |trained: &Trained| trained.densities(&[-1.0, 2.0], &grid).unwrap();
        for (a, b) in densities(&whole).iter().zip(densities(course.trained())) {
            assert_eq!(a.log_prob_values(), b.log_prob_values());
        }
        // An added point is used in the current epoch.
        course.add(0.5, 0.25);
        let mut steps = 0;
        course
            .train(|training| {
                training.history().len() < 3 && {
                    steps += 1;
                    true
                }
            })
            .unwrap();
        assert_eq!((steps, course.points().x.len()), (4, 101));
    }
}

#[test]
fn a_configuration_with_an_unknown_key_is_refused() {
    let text = "network = 'eccv'\nevaluation_points = 8\nmodels = 1\nmethods = []\nmomentum = 1\n[schedule]\nepochs = 1\nbatch_size = 1\nlearning_rate = 1.0";
    assert!(Experiment::parse("mine", text).unwrap_err().to_string().contains("momentum"));
}

#[test]
fn the_slow_methods_have_five_models() {
    let experiment = Experiment::embedded("figure2").unwrap();
    for problem in Problem::ALL {
        let models: Vec<u64> = experiment.methods(problem).map(|method| experiment.models(method)).collect();
        // In the order of the table: the learned proposal, Langevin dynamics and denoising score matching are
        // slow.
        assert_eq!(models, [20, 20, 20, 20, 20, 5, 20, 20, 5, 5, 20]);
    }
}

#[test]
fn points_are_read_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("points.csv");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Points::read_csv(&path)
    };
    let expected = Points { x: vec![0.5, -1.0], y: vec![2.0, 3.5] };
    assert_eq!(read("x,y\n0.5,2\n\n-1, 3.5\n").unwrap(), expected);
    assert_eq!(read("0.5,2\n-1,3.5").unwrap(), expected);
    for (text, part) in [
        ("x,y\n1,2\n1,nan\n", "points.csv:3"),
        ("x,y\n1\n", "points.csv:2"),
        ("1,2,3\n", "points.csv:1"),
        ("x,y\n", "no points"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(matches!(Points::read_csv(&folder.path().join("none.csv")), Err(Error::Data(_))));
}
