//! `ebm fit`, `predict table` and `eval table` on a stranger's file.

use crate::common::schema;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
    for found in [
        "240 rows in UTF-8, separated by ';'",
        "|                      category |   3: Fiat, VW, BMW; used |    0 |",
        "| first day |                    date (dmy) | 01.03.2005 to 01.03.2021 |    0 |",
        "|                        number |               0 to 96000 |   23 |",
        "| price     | target: number, decimal comma |",
    ] {
        assert!(said.contains(found), "{said}");
    }
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

/// From standard input, with comments, a date that only the option decides, and a cell that cannot be read.
#[test]
fn what_a_file_leaves_open_is_an_option() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run").display().to_string();
    let rows: String =
        (0..60).map(|k| format!("{}/{}/2024,{}\n", k % 12 + 1, k % 11 + 1, k * k % 37)).collect();
    let text = format!("# exported\nday,y\n{rows}5/6/2024,many\n");
    let ebm = |args: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ebm"))
            .args(args)
            .args(["-", "--run", &run])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let short = ["fit", "--target", "y", "--set", "training.steps=20", "--set", "members=1"];
    let options = ["--comment", "#", "--lenient", "--read-as", "dmy"];
    for (count, remedy) in [(0, "--comment '#'"), (2, "--lenient"), (3, "--read-as dmy or --read-as mdy")] {
        let (code, said) = ebm(&[&short[..], &options[..count]].concat());
        assert!(
            code == Some(3) && said.contains("standard input") && said.contains(remedy),
            "{code:?} {said}"
        );
    }
    let (code, said) = ebm(&[&short[..], &options].concat());
    assert!(code == Some(0) && said.contains("1 rows without a target are left out"), "{said}");
    assert!(said.contains("date (dmy)"), "{said}");
    let (code, said) = ebm(&[&["eval", "table"][..], &options].concat());
    assert!(code == Some(0), "{said}");
    assert_eq!(ebm(&[&short[..], &["--read-as", "ydm"]].concat()).0, Some(2));
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
    // The table of the columns shows the beginning of a long name.
    let long: String = (0..40).map(|k| format!("{}.5,{}\n", k * 7 % 11, k * k)).collect();
    std::fs::write(&data, format!("{},y\n{long}", "x".repeat(100_000))).unwrap();
    let short = ["--target", "y", "--set", "training.steps=5", "--set", "members=1"];
    let other = folder.path().join("long").display().to_string();
    let done = ebm(&[&["fit", &data, "--run", &other][..], &short].concat());
    assert!(done.status.success() && done.stderr.len() < 4000, "{}", done.stderr.len());
    assert!(said("x,y\n1,2\n", &["--target", "y"]).contains("at least 20"));
    assert!(said("x,y\n1,2\n", &["--target", "y", "--positive", "x"]).contains("no target"));
    assert!(said("x,y\n1,2\n", &["--target", "y", "--bounded", "y=3"]).contains("COLUMN=LOW,HIGH"));
    let missing = ebm(&["eval", "table", &data, "--run", &run]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("ebm fit"));
}
