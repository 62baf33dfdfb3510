//! `ebm fit`, `predict table` and `eval table` on a stranger's file.

use crate::common::schema;

use std::path::Path;
use std::process::{Command, Output};

fn ebm(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ebm")).args(args).output().unwrap()
}

/// A file as a spreadsheet writes it: a mark, semicolons, decimal commas, a category, gaps and dates.
fn cars(path: &Path, rows: std::ops::Range<usize>) {
    let mut text = "\u{feff}make;first day;km;price\n".to_owned();
    for k in rows {
        let (make, year, km) =
            (["Fiat", "\"BMW; used\"", "VW"][k % 3], 2005 + k * 7 % 17, 1000 * (k * 13 % 97));
        let km_text = if k % 9 == 0 { String::new() } else { km.to_string() };
        let price = (k % 3 + 1) as f64 * 3000.0 + 200.0 * (year - 2005) as f64 - 0.01 * km as f64
            + (k * 31 % 100) as f64;
        text += &format!("{make};01.03.{year};{km_text};{:.2}\n", price + 500.0)
            .replace('.', ",")
            .replace("01,03,", "01.03.");
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn from_a_file_to_a_report_and_predictions() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, new, run, out) = (at("cars.csv"), at("new.csv"), at("run"), at("out.csv"));
    cars(Path::new(&data), 0..240);
    cars(Path::new(&new), 240..300);
    let short = ["--set", "training.steps=150", "--set", "members=2"];
    let fit =
        [&["fit", &data, "--target", "price", "--positive", "price", "--run", &run][..], &short].concat();
    let done = ebm(&[&fit[..], &["--compare"]].concat());
    let compared = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        ["EBM (ours)", "Quantiles, pinball", "Softmax over bins"]
            .iter()
            .all(|title| compared.contains(title)),
        "{compared}"
    );
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    assert!(said.contains("separated by ';', with decimal commas"), "{said}");
    for name in [
        "report.md",
        "regressor.json",
        "member-1.safetensors",
        "target1_calibration.png",
        "target1_widest.png",
        "target1_residuals.png",
    ] {
        assert!(folder.path().join("run").join(name).is_file(), "{name}");
    }
    assert!(!ebm(&fit).status.success(), "a fit is not written over");

    let done = ebm(&["eval", "table", &new, "--run", &run, "--json"]);
    let document = schema::document(&done.stdout, "eval table");
    assert_eq!(document["samples"], 60);
    assert!(
        document["log_likelihood"].as_f64().unwrap() > -12.0 && document["targets"][0]["rmse"].is_number()
    );

    let done = ebm(&[
        "predict",
        "table",
        &new,
        "--run",
        &run,
        "--out",
        &out,
        "--samples",
        "2",
        "--quantiles",
        "0.1,0.9",
    ]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut reader = csv::Reader::from_path(&out).unwrap();
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let expected = [
        "line",
        "price_mean",
        "price_median",
        "price_mode",
        "price_q0.1",
        "price_q0.9",
        "price_region0.9",
        "price_sample1",
        "price_sample2",
        "log_prob",
    ];
    assert_eq!(header, expected);
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let number = |row: usize, column: usize| rows[row][column].parse::<f64>().unwrap();
    assert_eq!((rows.len(), &rows[0][0]), (60, "2"));
    assert!((0..60).all(|row| number(row, 4) < number(row, 2)
        && number(row, 2) < number(row, 5)
        && number(row, 4) > 0.0));
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) =
        (folder.path().join("t.csv").display().to_string(), folder.path().join("run").display().to_string());
    let said = |text: &str, more: &[&str]| {
        std::fs::write(&data, text).unwrap();
        let done = ebm(&[&["fit", &data, "--run", &run][..], more].concat());
        assert!(!done.status.success() && !Path::new(&run).exists());
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let rows: String = (0..40)
        .map(|k| format!("{k},{}\n", if k == 7 { "ten".to_owned() } else { (k * k).to_string() }))
        .collect();
    assert!(said(&format!("x,y\n{rows}"), &["--target", "y"]).contains("line 9, column y: \"ten\""));
    assert!(said(&format!("x,price\n{rows}"), &["--target", "prize"]).contains("price"));
    assert!(said("x,y\n1,2\n", &["--target", "y"]).contains("at least 20"));
    assert!(said("x,y\n1,2\n", &["--target", "y", "--positive", "x"]).contains("no target"));
    assert!(said("x,y\n1,2\n", &["--target", "y", "--bounded", "y=3"]).contains("COLUMN=LOW,HIGH"));
    let missing = ebm(&["eval", "table", &data, "--run", &run]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("ebm fit"));
}
