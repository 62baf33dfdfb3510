//! The expected figures of configurations equal the results in docs/results.

use crate::common::program::in_tree;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ebm_eval::{Expected, Figure, Summary};
use ebm_experiment::config::Settings;
use serde_json::Value;

/// Every configuration with what it expects.
fn configurations() -> Vec<(PathBuf, Expected)> {
    let mut found = Vec::new();
    for part in ["detect", "face", "track", "toy"] {
        for entry in std::fs::read_dir(in_tree(&format!("crates/ebm-{part}/configs"))).unwrap() {
            let path = entry.unwrap().path();
            let table: toml::Table = std::fs::read_to_string(&path).unwrap().parse().unwrap();
            let expected =
                table.get("expected").unwrap_or_else(|| panic!("{} has no [expected]", path.display()));
            found.push((path.clone(), expected.clone().try_into().unwrap()));
        }
    }
    found
}

/// The rows of a CSV file, by column.
fn rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cells = |line: &str| {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                letter => cells.last_mut().unwrap().push(letter),
            }
        }
        cells
    };
    let mut lines = text.lines().map(cells);
    let header: Vec<String> = lines.next().unwrap().iter().map(|name| name.to_lowercase()).collect();
    lines.map(|line| header.iter().cloned().zip(line).collect()).collect()
}

#[test]
fn every_configuration_says_what_it_should_come_to() {
    let found = configurations();
    assert_eq!(found.len(), 20);
    for (path, expected) in found {
        let path = path.display();
        assert!(expected.command.starts_with("ebm "), "{path}: {}", expected.command);
        assert!(!expected.time.is_empty() && !expected.source.is_empty(), "{path}");
        if expected.rows.is_empty() {
            assert_eq!(expected.source, "none was measured", "{path}");
        }
    }
}

/// Values are rounded means, tolerances three standard deviations, at least the least one of docs/json.md,
/// and never more.
#[test]
fn figures_are_those_of_the_results() {
    let mut compared = 0;
    for (path, expected) in configurations() {
        if !expected.source.starts_with("docs/results/") {
            continue;
        }
        let rows = rows(&in_tree(&expected.source));
        let (mut right, mut should_be) = (true, String::new());
        for row in &expected.rows {
            let plain = |value: &Value| value.to_string().trim_matches('"').to_owned();
            let own: Vec<_> = rows
                .iter()
                .filter(|line| row.of.iter().all(|(key, value)| line[key] == plain(value)))
                .collect();
            let of: Vec<String> = row.of.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            write!(should_be, "    {{ of = {{ {} }}", of.join(", ")).unwrap();
            for (key, figure) in &row.figures {
                let rate = !matches!(key.as_str(), "mae" | "nll" | "kl");
                let column = || rows.iter().filter_map(|line| line[key].parse::<f64>().ok());
                // Some files have rates in per cent.
                let unit = if rate && column().any(|value| value > 1.0) { 0.01 } else { 1.0 };
                let values: Vec<f64> =
                    own.iter().filter_map(|line| line[key].parse().ok()).map(|v: f64| unit * v).collect();
                let Ok(summary) = Summary::new(&values) else {
                    panic!("{}: {of:?} has no {key}", path.display())
                };
                let least = if rate { 0.005 } else { 0.01 * summary.mean.abs() };
                let near = |value: f64, wanted: f64| (value - wanted).abs() <= 2e-4;
                let (mean, tolerance) =
                    (summary.mean, summary.standard_deviation.map(|sd| (3.0 * sd).max(least)));
                match tolerance {
                    Some(tolerance) => write!(should_be, ", {key} = [{mean:.4}, {tolerance:.4}]").unwrap(),
                    None => write!(should_be, ", {key} = {mean:.4}").unwrap(),
                }
                right &= match (*figure, tolerance) {
                    (Figure::Within([value, given]), Some(tolerance)) => {
                        near(value, mean) && near(given, tolerance)
                    }
                    (Figure::Alone(value), None) => near(value, mean),
                    _ => false,
                };
                compared += 1;
            }
            should_be += " },\n";
        }
        assert!(right, "{}: by {} this should be\nrows = [\n{should_be}]", path.display(), expected.source);
    }
    assert!(compared > 50, "{compared}");
}

/// The paper's figures stand in the code too, beside measured ones.
#[test]
fn the_papers_figures_are_the_same_everywhere() {
    let figures = |name: &str, of: &[(&str, Value)], keys: &[&str]| -> Vec<f64> {
        let (_, expected) = configurations().into_iter().find(|(path, _)| path.ends_with(name)).unwrap();
        let row = expected
            .rows
            .iter()
            .find(|row| of.iter().all(|(key, value)| row.of.get(*key) == Some(value)))
            .unwrap();
        let value = |key: &&str| match row.figures[*key] {
            Figure::Alone(value) => vec![value],
            Figure::Within(pair) => pair.to_vec(),
        };
        keys.iter().flat_map(value).collect()
    };
    let near = |found: &[f64], wanted: &[f64]| {
        assert_eq!(found.len(), wanted.len());
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} {wanted:?}");
    };
    for method in ebm_detect::config::ExperimentConfig::embedded("paper").unwrap().methods {
        let of = [("method", method.key.as_str().into())];
        let found = figures("ebm-detect/configs/paper.toml", &of, &["ap", "ap50", "ap75"]);
        near(&found, &method.published.unwrap().ap.map(|value| value / 100.0));
    }
    for method in ebm_track::config::ExperimentConfig::embedded("paper").unwrap().methods {
        let of = [("method", method.key.as_str().into())];
        let found = figures("ebm-track/configs/paper.toml", &of, &["op50", "op75", "auc"]);
        near(&found, &method.published.unwrap().uav123.map(|value| value / 100.0));
    }
    for name in ["age_paper", "head_pose_paper"] {
        for method in ebm_face::config::ExperimentConfig::embedded(name).unwrap().methods {
            let published = [(false, method.published), (true, method.published_refined)];
            for (refined, wanted) in
                published.into_iter().filter_map(|(refined, figure)| Some((refined, figure?)))
            {
                let of = [("method", method.key.as_str().into()), ("refined", refined.into())];
                near(&figures(&format!("ebm-face/configs/{name}.toml"), &of, &["mae"]), &wanted);
            }
        }
    }
}
