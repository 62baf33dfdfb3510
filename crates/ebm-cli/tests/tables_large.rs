//! Tables that are read in blocks, and samples of their rows.

use crate::common::program::{command, ebm, fails, said, succeeds};

use std::path::Path;

/// Rows of a file, in which a row has the same cells again after 64 others.
fn rows(range: std::ops::Range<usize>) -> String {
    let row = |k: usize| format!("{},{}\n", k % 64 * 7 % 64, k % 64 * 3 % 64 + 1);
    format!("x,y\n{}", range.map(row).collect::<String>())
}

/// Rows are predicted together in groups of 64, whose draws for the estimates of Z are the same: a group of equal rows has
/// equal predictions anywhere in a file, in its first block or in a later one.
#[test]
fn a_row_is_predicted_alike_in_every_block() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, new, run, out) = (at("data.csv"), at("new.csv"), at("run"), at("new/folder/out.csv"));
    std::fs::write(&data, rows(0..10_000)).unwrap();
    let fit = ["fit", &data, "--target", "y", "--run", &run, "--set", "members=1", "--max-rows", "300"];
    let small =
        ["training.steps=20", "density.points=16", "density.samples=8"].map(|setting| ["--set", setting]);
    let [_, said] = succeeds(&[&fit[..], small.as_flattened()].concat());
    assert!(
        said.starts_with("10000 rows in UTF-8, separated by ','\n300 rows are taken at random\n"),
        "{said}"
    );
    assert!(said.contains("fitted to 270 rows"), "{said}");

    std::fs::write(&new, rows(0..9000)).unwrap();
    let options = ["--quantiles", "0.5", "--out", &out];
    succeeds(&[&["predict", "table", &new, "--run", &run][..], &options].concat());
    let text = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<(&str, &str)> = text.lines().map(|line| line.split_once(',').unwrap()).collect();
    assert_eq!((lines.len(), lines[0].0, lines[9000].0), (9001, "line", "9001"));
    for row in 0..8960 {
        assert_eq!(lines[1 + row].1, lines[1 + row % 64].1, "row {row}");
    }
    assert_ne!(lines[1].1, lines[2].1);
    // Draws are those of the row's place in the file.
    let draw = |seed: &str| {
        let options = ["--samples", "1", "--seed", seed];
        let [text, _] = succeeds(&[&["predict", "table", &new, "--run", &run][..], &options].concat());
        text.lines().map(|line| line.rsplit(',').nth(1).unwrap().to_owned()).collect::<Vec<String>>()
    };
    let [one, other] = ["0", "1"].map(draw);
    assert_eq!((one.len(), &*one[0]), (9001, "y_sample1"));
    assert!(
        one[1] != other[1] && one[1] != one[65] && one[1] != one[1 + 4096] && one[1 + 4096] != one[1 + 8192]
    );
}

/// What is wrong in a late block is found before anything is written.
#[test]
fn nothing_is_written_if_a_late_row_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, new, run, out) = (at("data.csv"), at("new.csv"), at("run"), at("out.csv"));
    std::fs::write(&data, rows(0..100)).unwrap();
    let fit =
        ["fit", &data, "--target", "y", "--positive", "y", "--run", &run, "--set", "members=1", "--set"];
    succeeds(&[&fit[..], &["training.steps=5"]].concat());
    for (row, reason) in [
        ("many,1", "line 5002, column x: \"many\" is no number"),
        ("1,-1", "line 5002, column y: \"-1\" is not above 0"),
        ("1,2,3", "line 5002: 3 values where the names are 2"),
    ] {
        std::fs::write(&new, format!("{}{row}\n", rows(0..5000))).unwrap();
        for more in [&["--out", &out][..], &[]] {
            let done = ebm(&[&["predict", "table", &new, "--run", &run][..], more].concat());
            let said = said(&done);
            assert!(done.status.code() == Some(3) && done.stdout.is_empty(), "{said}");
            assert!(said.contains(reason) && !Path::new(&out).exists(), "{said}");
        }
    }
    // Predictions replace neither the data nor a file of the fit.
    for out in [&new, &format!("{run}/member-0.safetensors"), &format!("{run}/new.csv")] {
        fails(&["predict", "table", &new, "--run", &run, "--out", out], 2, &["would replace"]);
    }
}

#[cfg(unix)]
#[test]
fn standard_input_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let mut fit = command(&["fit", "-", "--target", "y", "--run", &run]);
    let done = fit.stdin(std::fs::File::open("/dev/zero").unwrap()).output().unwrap();
    let said = said(&done);
    assert!(done.status.code() == Some(3) && said.contains("give the table as a file"), "{said}");
}
