//! Permutation importance of columns whose worth is known.

use ebm_base::Key;
use ebm_tabular::{FitOptions, Importance, TabularRegressor, evaluate, importance};
use rand::Rng;
use rand_distr::StandardNormal;

use crate::{small, table};

/// y is a + b with the noise 0.5 ε, a is −1 or 1, and b is 0 or 1. A permuted cell is another one in half of the rows, which
/// adds (2² or 1²)/2 to the mean square of an error and 4 or 1 times 1/(2 · 2 · 0.25) to −log p: 4 and 1 nats. u says
/// nothing of y.
#[test]
fn a_column_is_worth_what_its_permutation_adds_to_the_loss() {
    let mut rng = Key::new(11).rng();
    let mut row = |_| {
        let [a, b] = [(); 2].map(|()| f64::from(u8::from(rng.random::<bool>())));
        let [u, noise] = [(); 2].map(|()| rng.sample::<f64, _>(StandardNormal));
        [u, b, 2.0 * a - 1.0, 2.0 * a - 1.0 + b + 0.5 * noise]
    };
    let rows: Vec<[f64; 4]> = (0..900).map(&mut row).collect();
    let (learnt, judged) = (table("u,b,a,y", rows[..600].to_vec()), rows[600..].to_vec());
    let options = FitOptions { method: "gaussian".to_owned(), ..FitOptions::new("y") };
    let regressor = TabularRegressor::fit(&learnt, &options, &small(), &mut |_| {}).unwrap();
    let found = importance(&regressor, &table("u,b,a,y", judged.clone())).unwrap();
    let names: Vec<&str> = found.iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["a", "b", "u"]);
    for (Importance { rise, rise_low, rise_high, .. }, expected) in found.iter().zip([4.0, 1.0, 0.0]) {
        assert!((rise - expected).abs() < 0.05 + 0.2 * expected, "{found:?}");
        assert!(rise_low < rise && rise < rise_high && rise_high - rise_low < 0.1 + expected, "{found:?}");
    }
    // 200 rows are judged at most.
    let first = importance(&regressor, &table("u,b,a,y", judged[..200].to_vec())).unwrap();
    assert_eq!(first, found);
    // A permutation of equal cells changes nothing, in a file of any order of columns.
    let same = judged.iter().map(|[u, _, a, y]| [*y, *u, 1.0, *a]);
    let found = importance(&regressor, &table("y,u,b,a", same)).unwrap();
    let none = found.iter().find(|column| column.name == "b").unwrap();
    assert_eq!((none.rise, none.rise_low, none.rise_high), (0.0, 0.0, 0.0));
}

/// Two rows: a permutation of a column exchanges its cells or leaves them, so that the rises are 0 or that of the exchange.
#[test]
fn a_permutation_moves_all_inputs_of_one_column() {
    let row = |k: usize| [(k % 2) as f64, (k * 7 % 5) as f64, (k % 2) as f64 + (k * k % 11) as f64 / 20.0];
    let learnt = table("kind,u,y", (0..200).map(row));
    let mut options = FitOptions { method: "gaussian".to_owned(), ..FitOptions::new("y") };
    options.roles.categories = vec!["kind".to_owned()];
    let mut config = small();
    config.training.steps = 100;
    let regressor = TabularRegressor::fit(&learnt, &options, &config, &mut |_| {}).unwrap();
    let log_p = |kinds: [f64; 2]| {
        let rows = [[kinds[0], 1.0, 0.2], [kinds[1], 2.0, 1.2]];
        evaluate(&regressor, &table("kind,u,y", rows)).unwrap().log_likelihood.unwrap()
    };
    let exchanged = log_p([0.0, 1.0]) - log_p([1.0, 0.0]);
    let found = importance(&regressor, &table("kind,u,y", [[0.0, 1.0, 0.2], [1.0, 2.0, 1.2]])).unwrap();
    let kind = found.iter().find(|column| column.name == "kind").unwrap();
    let close = |found: f64, expected: f64| (found - expected).abs() < 1e-4;
    let times = kind.rise / exchanged * 5.0;
    assert!(close(times, times.round()) && (1.0..=4.0).contains(&times), "{found:?}, {exchanged}");
    assert!(close(kind.rise_low, 0.0) && close(kind.rise_high, exchanged), "{found:?}, {exchanged}");
}

#[test]
fn importance_needs_a_density_and_rows() {
    let rows = table("x,y", (0..40).map(|k| [f64::from(k * 7 % 11), f64::from(k)]));
    let mut config = small();
    config.training.steps = 5;
    let fit = |method: &str| {
        let options = FitOptions { method: method.to_owned(), ..FitOptions::new("y") };
        TabularRegressor::fit(&rows, &options, &config, &mut |_| {}).unwrap()
    };
    let said = importance(&fit("direct"), &rows).unwrap_err().to_string();
    assert!(said.contains("the method direct") && said.contains("no density"), "{said}");
    let said = importance(&fit("gaussian"), &rows.select(&[])).unwrap_err().to_string();
    assert!(said.contains("at least 1"), "{said}");
}
