//! The settings as they are written in a TOML file.

use ebm_core::{GaussianMixture, GradientAscent, Grid, MonteCarloNll, StepRule};

#[test]
fn an_objective_reads_and_writes() {
    let text = "num_samples = 127\n[proposal]\nsigmas = [[0.0375, 0.0375], [0.075, 0.15]]\n";
    let objective: MonteCarloNll<GaussianMixture> = toml::from_str(text).unwrap();
    assert_eq!((objective.num_samples, objective.proposal.dim()), (127, 2));
    assert_eq!(objective.proposal.sigmas()[1], [0.075, 0.15]);
    let again: MonteCarloNll<GaussianMixture> =
        toml::from_str(&toml::to_string(&objective).unwrap()).unwrap();
    assert_eq!(again, objective);
}

#[test]
fn a_bad_objective_is_refused_while_it_is_read() {
    let read = |text: &str| toml::from_str::<MonteCarloNll<GaussianMixture>>(text).unwrap_err().to_string();
    assert!(read("num_samples = 1\nsamples = 2\n[proposal]\nsigmas = [[1.0]]").contains("samples"));
    assert!(read("num_samples = 1\n[proposal]\nsigmas = [[1.0]]\nmean = 0").contains("mean"));
    assert!(read("num_samples = 1\n[proposal]\nsigmas = [[-1.0]]").contains("-1"));
    assert!(read("num_samples = 1\n[proposal]\nsigmas = [[1.0], [1.0, 2.0]]").contains("same number"));
}

#[test]
fn an_ascent_reads_and_writes() {
    let detection: GradientAscent = toml::from_str(
        "steps = 10\nstep_length = [1e-4, 1e-4, 4e-4, 4e-4]\ndecay = 0.5\nrule = \"backtracking\"",
    )
    .unwrap();
    let expected = GradientAscent {
        steps: 10,
        step_length: vec![1e-4, 1e-4, 4e-4, 4e-4],
        decay: 0.5,
        rule: StepRule::Backtracking,
    };
    assert_eq!(detection, expected);

    let age: GradientAscent = toml::from_str(
        "steps = 5\nstep_length = [3.0]\n[rule.early_stopping]\nchange_threshold = 1e-3\ndegeneration_tolerance = -1e-2",
    )
    .unwrap();
    let rule =
        StepRule::EarlyStopping { change_threshold: 1e-3, degeneration_tolerance: -1e-2, keep_best: false };
    assert_eq!(age, GradientAscent { steps: 5, step_length: vec![3.0], decay: 1.0, rule });

    for ascent in [detection, age] {
        let text = toml::to_string(&ascent).unwrap();
        assert_eq!(toml::from_str::<GradientAscent>(&text).unwrap(), ascent);
    }
}

#[test]
fn unknown_keys_and_rules_are_refused() {
    let read = |text: &str| toml::from_str::<GradientAscent>(text).unwrap_err().to_string();
    assert!(read("steps = 1\nstep_length = [1.0]\nrule = \"plain\"\nmomentum = 1").contains("momentum"));
    assert!(read("steps = 1\nstep_length = [1.0]\nrule = \"newton\"").contains("newton"));
    let rule = "[rule.early_stopping]\nchange_threshold = 1e-3\ndegeneration_tolerance = -1e-2\nomega = 1";
    assert!(read(&format!("steps = 1\nstep_length = [1.0]\n{rule}")).contains("omega"));
}

#[test]
fn a_grid_reads_and_writes() {
    let grid: Grid = toml::from_str("lo = -3.0\nhi = 3.0\nnum_points = 2048").unwrap();
    assert_eq!(grid, Grid::new(-3.0, 3.0, 2048).unwrap());
    assert_eq!(toml::from_str::<Grid>(&toml::to_string(&grid).unwrap()).unwrap(), grid);
    let refused = |text: &str| toml::from_str::<Grid>(text).unwrap_err().to_string();
    assert!(refused("lo = 3.0\nhi = -3.0\nnum_points = 2048").contains("lo < hi"));
    assert!(refused("lo = -3.0\nhi = 3.0\nnum_points = 5\nstep = 0.1").contains("step"));
}
