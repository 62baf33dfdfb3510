#![allow(dead_code, reason = "only their declarations are looked at")]

use super::*;
use crate::settings;

settings! {
    /// A network.
    #[derive(Clone)]
    struct Network<P> {
        /// Channels.
        /// Of every layer.
        width: usize where 1..=1024,
        #[allow(unused)]
        scales: Vec<Vec<f64>> where 1e-6..=1e6 => "pixels",
        published: P where 0.0..=100.0,
        name: Option<String>,
        losses: Vec<Loss<f32>>,
    }
}

settings! {
    /// A loss.
    #[derive(Clone)]
    enum Loss<P = u8> {
        /// Nothing to set.
        L2,
        SmoothL1 {
            /// β.
            beta: P where 0.0..=1.0,
            steps: u8 where 0..=9,
        },
        Bins(Vec<P> where -1.0..=1.0),
    }
}

settings! {
    /// A grid.
    struct Grid {
        cells: usize where 0..=64,
    }

    /// A frame with a grid.
    pub(super) struct Framed {
        grid: Grid,
    }

    #[derive(Clone)]
    enum Kind {
        Plain,
    }
}

fn field(name: &str, meaning: &'static [&'static str], declaration: Declaration) -> Field {
    Field { name: name.to_owned(), meaning, declaration }
}

#[test]
fn a_declaration_says_what_was_written() {
    let numbers = |range: Range| Declaration::Numbers(range);
    let loss = vec![
        field("l2", &[" Nothing to set."], Declaration::Plain),
        field(
            "smooth_l1",
            &[],
            Declaration::Table(vec![
                field("beta", &[" β."], numbers((0.0..=1.0).into())),
                field("steps", &[], numbers((0..=9).into())),
            ]),
        ),
        field("bins", &[], numbers((-1.0..=1.0).into())),
    ];
    let loss = Declaration::Choice { tag: None, kinds: loss };
    let expected = Declaration::Table(vec![
        field("width", &[" Channels.", " Of every layer."], numbers((1..=1024).into())),
        field("scales", &[""], numbers(Range::from(1e-6..=1e6).of("pixels"))),
        field("published", &[], numbers((0.0..=100.0).into())),
        field("name", &[], Declaration::Plain),
        field("losses", &[], Declaration::List(Box::new(loss))),
    ]);
    assert_eq!(Network::<f64>::declaration(), expected);
    let lines = [
        "width: a whole number from 1 to 1024. Channels. Of every layer.",
        "scales: a number from 1e-6 to 1e6, in pixels.",
        "published: a number from 0 to 100.",
        "name:",
        "losses.*.l2: Nothing to set.",
        "losses.*.smooth_l1.beta: a number from 0 to 1. β.",
        "losses.*.smooth_l1.steps: a whole number from 0 to 9.",
        "losses.*.bins: a number from -1 to 1.",
    ];
    assert_eq!(expected.explained(), lines);
}

#[test]
fn others_may_follow_a_structure() {
    let grid = Declaration::Table(vec![field("cells", &[], Declaration::Numbers((0..=64).into()))]);
    assert_eq!(Framed::declaration(), Declaration::Table(vec![field("grid", &[], grid)]));
    let kinds = vec![field("plain", &[], Declaration::Plain)];
    assert_eq!(Kind::declaration(), Declaration::Choice { tag: None, kinds });
}

#[test]
fn a_range_holds_its_ends_and_nothing_else() {
    let (whole, real) = (Range::from(1..=8), Range::from(-1.0..=1e9).of("steps"));
    assert!(whole.contains(1.0) && whole.contains(8.0) && !whole.contains(1.5) && !whole.contains(9.0));
    assert!(real.contains(-1.0) && real.contains(0.5) && real.contains(1e9));
    for hostile in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2f64.powi(63)] {
        assert!(!whole.contains(hostile) && !real.contains(hostile) && !Range::NONE.contains(hostile));
    }
    assert_eq!(whole.to_string(), "a whole number from 1 to 8");
    assert_eq!(real.to_string(), "a number from -1 to 1e9, in steps");
    assert_eq!(Range::from(0.001..=65536.0).to_string(), "a number from 0.001 to 65536");
    assert_eq!(Range::NONE.to_string(), "no number");
}
