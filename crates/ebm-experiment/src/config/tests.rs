#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Toy {
    title: String,
    ascent: Ascent,
    objective: Objective,
    methods: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ascent {
    steps: usize,
    step_lengths: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Objective {
    MlIs { num_samples: usize },
    Dsm { sigma: f64 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    key: String,
    samples: usize,
}

const PAPER: &str = "title = 'paper'\nascent = { steps = 5, step_lengths = [1.0] }\n\
    objective = { kind = 'ml_is', num_samples = 8 }\n\
    [[methods]]\nkey = 'ebm'\nsamples = 128\n[[methods]]\nkey = 'atom'\nsamples = 16\n\
    [expected]\ncommand = 'ebm'\ntime = 'a minute'\nsource = 'the paper'\n\
    [smoke]\nascent.steps = 1\nmethods.ebm.samples = 2";
const MINI: &str = "extends = 'paper'\ntitle = 'mini'\n[methods.ebm]\nsamples = 4";

impl Settings for Toy {
    const EMBEDDED: &'static [(&'static str, &'static str)] = &[("paper", PAPER), ("mini", MINI)];

    fn check(&self) -> std::result::Result<(), String> {
        if self.ascent.steps == 0 { Err("ascent.steps: at least 1".to_owned()) } else { Ok(()) }
    }
}

fn with(change: &str) -> Result<Configured<Toy>> {
    Configured::load("paper", &Overrides { smoke: false, changes: vec![change.parse().unwrap()] })
}

#[test]
fn a_configuration_extends_another_key_by_key_and_row_by_row() {
    let (paper, mini) = (Toy::embedded("paper").unwrap(), Toy::embedded("mini").unwrap());
    assert_eq!((mini.title.as_str(), &mini.ascent), ("mini", &paper.ascent));
    assert_eq!(mini.methods[0], Row { key: "ebm".to_owned(), samples: 4 });
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
        ("ascent.steps=0", ["configuration paper", "at least 1"]),
        ("ascent.steps=three", ["invalid type", "three"]),
        ("methods.atom.zzzzzz=1", ["unknown field `zzzzzz`", "expected `key` or `samples`"]),
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
fn a_smoke_run_has_little_of_everything() {
    let smoke =
        |name: &str, changes: Vec<Change>| Configured::<Toy>::load(name, &Overrides { smoke: true, changes });
    let mini = smoke("mini", vec![]).unwrap();
    assert_eq!((mini.settings.ascent.steps, mini.settings.methods[0].samples, mini.expected), (1, 2, None));
    let changed = smoke("paper", vec!["ascent.steps=3".parse().unwrap()]).unwrap();
    assert_eq!(changed.settings.ascent.steps, 3);
    let alone = toml::to_string(&Toy::embedded("paper").unwrap()).unwrap();
    let refused = Configured::<Toy>::resolve("mine", &alone, &Overrides { smoke: true, changes: vec![] });
    assert!(refused.unwrap_err().to_string().contains("no table [smoke]"));
}
