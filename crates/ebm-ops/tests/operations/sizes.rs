//! Properties of an operation for all sizes.

use proptest::prelude::prop;
use proptest::test_runner::{Config, TestCaseResult, TestRunner};

/// Checks `cases` lists with a number of each of `choices`, and shrinks a list that fails.
pub fn for_all<const N: usize>(
    cases: u32,
    choices: [Vec<usize>; N],
    check: impl Fn([usize; N]) -> TestCaseResult,
) {
    run(cases, &choices, &|sizes| check(std::array::from_fn(|i| sizes[i])));
}

/// Behind a pointer, because proptest would be compiled for each test otherwise.
fn run(cases: u32, choices: &[Vec<usize>], check: &dyn Fn(&[usize]) -> TestCaseResult) {
    let config = Config { failure_persistence: None, ..Config::with_cases(cases) };
    let lists: Vec<_> = choices.iter().map(|numbers| prop::sample::select(numbers.clone())).collect();
    if let Err(error) = TestRunner::new(config).run(&lists, |sizes| check(&sizes)) {
        panic!("{error}");
    }
}

/// Returns the numbers from 1 to `last`.
pub fn to(last: usize) -> Vec<usize> {
    (1..=last).collect()
}
