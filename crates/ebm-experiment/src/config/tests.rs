#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

use serde::{Deserialize, Serialize};

use super::*;

settings! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Toy {
        title: String,
        ascent: Ascent,
        objective: Objective,
        methods: Vec<Row>,
    }
}

settings! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Ascent {
        steps: usize where 1..=1000,
        step_lengths: Vec<f64> where 0.0..=10.0 => "pixels",
    }
}

settings! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
    enum Objective {
        MlIs { num_samples: usize where 1..=64 },
        Dsm { sigma: f64 where 1e-6..=1e3 },
        Nested(Ascent),
    }
}

settings! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Row {
        key: String,
        samples: usize where 1..=1024,
        #[serde(default)]
        proposal: Option<Proposal>,
    }
}

settings! {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Proposal {
        Pool { size: usize where 1..=9 },
        Spread(Vec<Vec<f64>> where 0.0..=1.0),
        Boxes,
    }
}

/// Settings with a number that is missing in their declaration.
#[derive(Debug, Deserialize)]
struct Undeclared {
    #[expect(dead_code, reason = "it is never accepted")]
    hidden: f64,
}

impl Setting for Undeclared {}

const PAPER: &str = "title = 'paper'\nascent = { steps = 5, step_lengths = [1.0] }\n\
    objective = { kind = 'ml_is', num_samples = 8 }\n\
    [[methods]]\nkey = 'ebm'\nsamples = 128\n[[methods]]\nkey = 'atom'\nsamples = 16\n\
    [expected]\ncommand = 'ebm'\ntime = 'a minute'\nsource = 'the paper'\n\
    [smoke]\nascent.steps = 1\nmethods.ebm.samples = 2";
const MINI: &str = "extends = 'paper'\ntitle = 'mini'\n[methods.ebm]\nsamples = 4";

impl Settings for Toy {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[("paper", PAPER), ("mini", MINI)];
}

fn with(change: &str) -> Result<Configured<Toy>> {
    Configured::load("paper", &Overrides { smoke: false, changes: vec![change.parse().unwrap()] })
}

#[test]
fn a_configuration_extends_another_key_by_key_and_row_by_row() {
    let (paper, mini) = (Toy::embedded("paper").unwrap(), Toy::embedded("mini").unwrap());
    assert_eq!((mini.title.as_str(), &mini.ascent), ("mini", &paper.ascent));
    assert_eq!(mini.methods[0], Row { key: "ebm".to_owned(), samples: 4, proposal: None });
    assert_eq!(mini.methods[1], paper.methods[1]);
    assert_eq!(Toy::parse("again", &mini.to_toml().unwrap()).unwrap(), mini);
}

#[test]
fn expected_figures_are_of_the_configuration_as_it_stands() {
    let expected = |name: &str| Configured::<Toy>::load(name, &Overrides::default()).unwrap().expected;
    assert_eq!(expected("paper").unwrap().source, "the paper");
    assert_eq!(expected("mini"), None);
    assert_eq!(with("title=other").unwrap().expected, None);
}

#[test]
fn the_command_line_changes_any_setting() {
    assert_eq!(with("ascent.step_lengths=[0.05, 0.2]").unwrap().settings.ascent.step_lengths, [0.05, 0.2]);
    assert_eq!(with("title = a word").unwrap().settings.title, "a word");
    assert_eq!(with("methods.atom.samples=3").unwrap().settings.methods[1].samples, 3);
    assert_eq!(
        with("objective.num_samples=3").unwrap().settings.objective,
        Objective::MlIs { num_samples: 3 }
    );
    let dsm = with("objective={ kind = 'dsm', sigma = 0.1 }").unwrap().settings;
    assert_eq!(dsm.objective, Objective::Dsm { sigma: 0.1 });
    for wrong in ["ascent.steps", "=3", "ascent..steps=3", "ascent.steps=[3", "ascent.steps=3\ntitle='x'"] {
        assert!(wrong.parse::<Change>().is_err(), "{wrong}");
    }
}

#[test]
fn mistakes_are_named_with_the_nearest_known_name() {
    let message = |change: &str| with(change).unwrap_err().to_string();
    for (change, parts) in [
        ("ascent.setps=3", ["ascent.setps", "did you mean `steps`"]),
        ("objective={ kind = 'mlis', num_samples = 3 }", ["unknown variant", "did you mean `ml_is`"]),
        ("ascent.steps=0", ["configuration paper", "ascent.steps = 0"]),
        ("ascent.steps=three", ["invalid type", "three"]),
        ("methods.atom.zzzzzz=1", ["unknown field `zzzzzz`", "expected one of `key`, `samples`"]),
    ] {
        let found = message(change);
        assert!(parts.iter().all(|part| found.contains(part)), "{change}: {found}");
    }
    assert!(!message("methods.atom.zzzzzz=1").contains("did you mean"));
    let unknown = Toy::embedded("papr").unwrap_err().to_string();
    assert!(
        unknown.contains("did you mean `paper`?") && unknown.contains("there are paper, mini"),
        "{unknown}"
    );
}

#[test]
fn a_number_out_of_its_range_is_named_with_key_value_and_range() {
    for (change, message) in [
        ("ascent.steps=0", "ascent.steps = 0; it must be a whole number from 1 to 1000"),
        ("ascent.steps=-1", "ascent.steps = -1; it must be a whole number"),
        ("ascent.steps=2.0", "ascent.steps = 2.0; it must be a whole number"),
        ("ascent.steps=nan", "ascent.steps = nan; it must be a whole number"),
        ("ascent.steps=9223372036854775808", "ascent.steps = 9223372036854776000.0; it must be"),
        (
            "ascent.step_lengths=[1, -inf]",
            "ascent.step_lengths[1] = -inf; it must be a number from 0 to 10, in pixels",
        ),
        ("objective.num_samples=65", "objective.num_samples = 65; it must be a whole number from 1 to 64"),
        (
            "objective={ kind = 'dsm', sigma = nan }",
            "objective.sigma = nan; it must be a number from 1e-6 to 1000",
        ),
        ("objective={ kind = 'nested', steps = 0 }", "objective.steps = 0"),
        ("methods.atom.samples=1025", "methods.atom.samples = 1025; it must be"),
        ("methods.atom.proposal.pool.size=10", "methods.atom.proposal.pool.size = 10; it must be"),
        (
            "methods.atom.proposal.spread=[[0.5], [1, 2]]",
            "methods.atom.proposal.spread[1][1] = 2; it must be",
        ),
    ] {
        let error = with(change).unwrap_err();
        assert!(error.to_string().contains(&format!("configuration paper: {message}")), "{change}: {error}");
    }
    let error = parse::<Undeclared>("paper", "hidden = 1.0").unwrap_err().to_string();
    assert!(error.contains("hidden = 1.0; it must be no number"), "{error}");
    let mut toy = Toy::embedded("paper").unwrap();
    toy.ascent.step_lengths = vec![f64::NAN];
    let error = check_ranges("mine", &toy).unwrap_err();
    assert!(matches!(error, Error::OutOfRange(out) if out.key == "ascent.step_lengths[0]"));
    for (table, key) in [
        ("[smoke]\nascent.steps = 0", "paper, smoke: ascent.steps = 0"),
        (
            "[expected]\ncommand = ''\ntime = ''\nsource = ''\nrows = [{ of = {}, ap = nan }]",
            "expected: rows[0].ap = nan",
        ),
    ] {
        let text = format!("{}{table}", PAPER.split("[expected]").next().unwrap());
        let error = Toy::parse("paper", &text).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn a_smoke_run_has_little_of_everything() {
    let smoke =
        |name: &str, changes: Vec<Change>| Configured::<Toy>::load(name, &Overrides { smoke: true, changes });
    let mini = smoke("mini", vec![]).unwrap();
    assert_eq!((mini.settings.ascent.steps, mini.settings.methods[0].samples, mini.expected), (1, 2, None));
    let changed = smoke("paper", vec!["ascent.steps=3".parse().unwrap()]).unwrap();
    assert_eq!(changed.settings.ascent.steps, 3);
    let alone = toml::to_string(&Toy::embedded("paper").unwrap()).unwrap();
    let refused = Configured::<Toy>::parse("mine", &alone, &Overrides { smoke: true, changes: vec![] });
    assert!(refused.unwrap_err().to_string().contains("no table [smoke]"));
}
