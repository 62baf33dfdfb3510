//! `ebm fit`, `predict table` and `eval table` on a stranger's file.

use crate::common::program::{command, ebm, fails, refused, succeeds};
use crate::common::schema;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use ebm_base::Key;
use ebm_tabular::benchmark::Generated;

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
    let short = ["--set", "training.steps=50", "--set", "members=2"];
    let fit =
        [&["fit", &data, "--target", "price", "--positive", "price", "--run", &run][..], &short].concat();
    let [compared, said] = succeeds(&[&fit[..], &["--compare"]].concat());
    assert!(
        ["EBM (ours)", "Quantiles, pinball", "Softmax over bins"]
            .iter()
            .all(|title| compared.contains(title)),
        "{compared}"
    );
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
        "target1_pit.png",
        "target1_tenths.png",
    ] {
        assert!(folder.path().join("run").join(name).is_file(), "{name}");
    }
    // A fit is not written over.
    refused(&fit, &[]);

    let [printed, _] = succeeds(&["eval", "table", &new, "--run", &run, "--json"]);
    let document = schema::document(&printed, "eval table");
    assert_eq!(document["samples"], 60);
    assert!(
        document["log_likelihood"].as_f64().unwrap() > -12.0 && document["targets"][0]["rmse"].is_number()
    );

    let options = ["--out", &out, "--samples", "2", "--quantiles", "0.1,0.9"];
    succeeds(&[&["predict", "table", &new, "--run", &run][..], &options].concat());
    let mut reader = csv::Reader::from_path(&out).unwrap();
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let expected = [
        "line",
        "price_mean",
        "price_median",
        "price_mode",
        "price_q0.1",
        "price_q0.9",
        "price_low_0.9",
        "price_high_0.9",
        "price_intervals_0.9",
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

/// y = ±x with equal probability, beside columns that say nothing: a number, and names with commas, quotes and gaps.
fn fork(rows: std::ops::Range<usize>) -> String {
    let mut rng = Key::new(rows.start as u64).rng();
    let mut row = |k: usize| {
        let (numbers, _) = Generated::Fork.draw(&mut rng);
        let name = if k.is_multiple_of(50) { " NA".to_owned() } else { format!("\"no. {k}, \"\"so\"\"\"") };
        format!("{k},{name},{:.4},{:.4}\n", numbers[0], numbers[1])
    };
    let rows: String = rows.map(&mut row).collect();
    format!("id,name,x,y\n{rows}")
}

#[test]
fn columns_are_kept_and_regions_are_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, new, run) = (at("fork.csv"), at("new.csv"), at("run"));
    std::fs::write(&data, fork(0..1000)).unwrap();
    std::fs::write(&new, fork(1000..1130)).unwrap();
    let short = ["--set", "training.steps=600", "--set", "training.batch=64", "--set", "members=1"];
    succeeds(&[&["fit", &data, "--target", "y", "--run", &run][..], &short].concat());

    let args = |more: &[&str]| -> Vec<String> {
        [&["predict", "table", &new, "--run", &run], more].concat().into_iter().map(str::to_owned).collect()
    };
    let predict = |more: &[&str]| succeeds(&args(more));
    let options = ["--keep", "name,id", "--region", "0.5,0.9", "--quantiles", "0.5"];
    let [text, _] = predict(&options);
    let names = "name,id,line,y_mean,y_median,y_mode,y_q0.5,y_low_0.5,y_high_0.5,y_intervals_0.5,\
                 y_low_0.9,y_high_0.9,y_intervals_0.9,log_prob";
    assert_eq!(text.lines().next(), Some(names));
    // A file has the same as standard output.
    let out = at("out.csv");
    predict(&[&options[..], &["--out", &out]].concat());
    assert_eq!(std::fs::read_to_string(&out).unwrap(), text);
    let records = |text: &str| {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        reader.records().map(Result::unwrap).collect::<Vec<csv::StringRecord>>()
    };
    let (rows, given) = (records(&text), records(&fork(1000..1130)));
    assert_eq!((rows.len(), &rows[0][0], &rows[1][0]), (130, " NA", "no. 1001, \"so\""));
    for (place, (row, given)) in rows.iter().zip(&given).enumerate() {
        assert_eq!((&row[0], &row[1], &row[2]), (&given[1], &given[0], &*(place + 2).to_string()));
    }
    let numbers: Vec<Vec<f64>> =
        rows.iter().map(|row| row.iter().skip(3).map(|cell| cell.parse().unwrap()).collect()).collect();
    let [mut forked, mut held] = [0, 0];
    for (row, given) in numbers.iter().zip(&given) {
        assert!(row.iter().all(|number| number.is_finite()), "{row:?}");
        let (x, y): (f64, f64) = (given[2].parse().unwrap(), given[3].parse().unwrap());
        let &[low, high, intervals] = row[7..].first_chunk().unwrap();
        assert!(low <= row[4] && row[5] <= high && low <= row[2] && row[2] <= high, "{row:?}");
        if intervals == 2.0 {
            assert!(low < -x && x < high, "x = {x}: {row:?}");
            forked += 1;
        }
        held += usize::from(low <= y && y <= high);
    }
    assert!(forked > 117 && held > 104, "{forked} and {held} of 130");

    // JSON has the same numbers, and the ends of all intervals.
    let [lines, _] = predict(&[&options[..], &["--json", "--samples", "3"]].concat());
    assert_eq!(lines.lines().count(), 130);
    for ((line, row), numbers) in lines.lines().zip(&rows).zip(&numbers) {
        let document = schema::document(line.as_bytes(), "predict table");
        assert_eq!(
            (&document["kept"]["name"], &document["line"].to_string()),
            (&row[0].into(), &row[2].into())
        );
        assert_eq!(document["kept"].as_object().unwrap().len(), 2);
        let target = &document["targets"][0];
        let close = |value: &serde_json::Value, number: f64| (value.as_f64().unwrap() - number).abs() < 1e-9;
        assert!(target["name"] == "y" && close(&target["mean"], numbers[0]), "{line}");
        assert!(target["draws"].as_array().unwrap().len() == 3 && close(&document["log_prob"], numbers[10]));
        assert_eq!(document["mass"], serde_json::json!([0.5, 0.9]));
        for (regions, numbers) in [&numbers[4..], &numbers[7..]].into_iter().enumerate() {
            let intervals = target["regions"][regions].as_array().unwrap();
            assert_eq!(intervals.len() as f64, numbers[2], "{line}");
            let ends = [&intervals[0][0], &intervals[intervals.len() - 1][1]];
            assert!(close(ends[0], numbers[0]) && close(ends[1], numbers[1]), "{line}");
        }
    }

    // What cannot be kept, and numbers that are no shares.
    let refused = |more: &[&str], reasons: &[&str]| {
        let output = refused(&args(more), reasons);
        assert!(output.status.code() == Some(2) && output.stdout.is_empty(), "{output:?}");
    };
    refused(&["--keep", "id,nane"], &["--keep", "\"nane\"; did you mean `name`?", "id, name, x, y"]);
    refused(&["--keep", "id,id"], &["two columns would be called \"id\"", "leave it out of --keep"]);
    // 100 calibration rows promise 100/101.
    for (more, ends, others) in [
        (&["--strict"][..], ["-inf", "inf"], "larger ones have no bounds"),
        (&[], ["", ""], "larger ones are the density's own"),
    ] {
        let [text, said] = predict(&[&["--region", "0.9,0.999", "--quantiles", "0.5"], more].concat());
        assert!(
            said.contains("100 calibration rows promise regions of up to 99.0 %") && said.contains(others),
            "{said}"
        );
        for row in records(&text) {
            let is_finite = |cell: &str| cell.parse::<f64>().unwrap().is_finite();
            assert!(is_finite(&row[5]) && is_finite(&row[6]), "{row:?}");
            assert!(if more.is_empty() { is_finite(&row[8]) } else { [&row[8], &row[9]] == ends }, "{row:?}");
        }
    }
    refused(&["--region", "0.5,1"], &["--region: 0.5, 1: shares"]);
    refused(&["--quantiles", "0.5,2"], &["--quantiles: 0.5, 2: probabilities"]);
    std::fs::write(&new, fork(1000..1130).replace("name", "line")).unwrap();
    refused(&["--keep", "line"], &["\"line\"", "rename the column in the data"]);
    // A name with a comma is one column.
    std::fs::write(&new, fork(1000..1030).replace("name", "\"name, first\"")).unwrap();
    let [text, _] = predict(&["--keep", "name, first"]);
    assert!(text.starts_with("\"name, first\",line,"), "{text}");
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
        let mut command = command(&[args, &["-", "--run", &run]].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
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
fn folds_judge_the_method_before_the_fit() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("cars.csv").display().to_string();
    cars(Path::new(&data), 0..150);
    let short = ["--target", "price", "--set", "training.steps=20", "--set", "members=1"];
    let fit = |name: &str, more: &[&str]| {
        let run = folder.path().join(name).display().to_string();
        let done = ebm(&[&["fit", &data, "--run", &run][..], &short, more].concat());
        let [out, said] = [done.stdout, done.stderr].map(|text| String::from_utf8(text).unwrap());
        (done.status.code(), out, said)
    };
    for (more, found) in [
        (&["--group", "make"][..], "fold 3 of 3: 50 rows judged by a fit to 100 others"),
        (&["--time", "first day"], "fold 1 of 3: 36 rows judged by a fit to 35 others"),
    ] {
        let (code, out, said) = fit(more[0], &[&["--folds", "3"], more].concat());
        assert!(code == Some(0) && said.contains(found) && said.contains("one seed"), "{code:?} {said}");
        let column = format!("| {:<9} |", more[1]);
        let is_left_out = said.lines().any(|line| line.starts_with(&column) && line.contains("left out"));
        assert_eq!(is_left_out, more[0] == "--group", "{said}");
        assert!(out.starts_with("| target |") && out.matches(" ± ").count() == 6, "{out}");
    }
    for (code, more, reason) in [
        (3, &["--folds", "4", "--group", "make"][..], "too few groups for 4 folds"),
        (3, &["--folds", "4", "--time", "km"], "line 2, column km: \"\" is no number or date"),
        (3, &["--folds", "8", "--time", "first day"], "at least 20 are needed"),
        (2, &["--folds", "4", "--time", "price"], "is a target"),
        (2, &["--folds", "4", "--time", "km", "--group", "make"], "--group"),
        (2, &["--folds", "4", "--compare"], "--compare"),
        (2, &["--folds", "21"], "2..=20"),
        (2, &["--group", "make"], "--folds"),
    ] {
        let (found, out, said) = fit("refused", more);
        assert!(found == Some(code) && out.is_empty() && said.contains(reason), "{more:?}: {found:?} {said}");
    }
}

#[test]
fn a_fit_with_weights_is_a_document() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, run) = (at("cars.csv"), at("run"));
    cars(Path::new(&data), 0..240);
    let fit = |target: &str, more: &[&str]| {
        let short = ["--set", "training.steps=20", "--set", "members=1", "--json"];
        let args = [&["fit", &data, "--run", &run, "--target", target][..], &short, more].concat();
        args.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    fails(&fit("price", &["--weight", "km"]), 3, &["line 2, column km: \"\" is no weight"]);
    // The price is there in every row.
    let [printed, said] = succeeds(&fit("km", &["--weight", "price", "--folds", "2", "--importance"]));
    assert!(said.contains("price weighs the rows") && said.contains("count every row once"), "{said}");
    let document = schema::document(&printed, "fit");
    let rows = |key: &str| document[key].as_u64().unwrap();
    assert_eq!((&document["folder"], &document["method"]), (&run.into(), &"ebm".into()));
    assert_eq!((rows("learnt"), &document["evaluation"]["samples"]), (192, &21.into()));
    assert_eq!(document["folds"].as_array().unwrap().len(), 2);
    let columns = document["columns"].as_array().unwrap();
    let names: Vec<&str> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["make", "first day", "km", "price"]);
    assert_eq!((&columns[3]["read_as"], &columns[2]["gaps"]), (&"left out".into(), &0.into()));
    // The inputs have an importance: printed, in a file and in the report.
    let important = document["importance"].as_array().unwrap();
    let mut names: Vec<&str> = important.iter().map(|column| column["name"].as_str().unwrap()).collect();
    let number = |place: usize, key: &str| important[place][key].as_f64().unwrap();
    assert!(number(0, "rise") >= number(1, "rise") && number(0, "rise_low") <= number(0, "rise_high"));
    let [table, report] = ["importance.csv", "report.md"]
        .map(|name| std::fs::read_to_string(folder.path().join("run").join(name)).unwrap());
    assert!(table.starts_with(&format!("column,rise,least,largest\n{},", names[0])), "{table}");
    assert!([&*said, &report].iter().all(|text| text.contains(&format!("| {:<9} | ", names[1]))), "{said}");
    names.sort_unstable();
    assert_eq!(names, ["first day", "make"]);
    let args = ["fit", &data, "--run", &at("x"), "--target", "km", "--method", "direct", "--importance"];
    refused(&args, &["--importance needs a density"]);
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (data, run) =
        (folder.path().join("t.csv").display().to_string(), folder.path().join("run").display().to_string());
    let refuses = |text: &str, more: &[&str], part: &str| {
        std::fs::write(&data, text).unwrap();
        refused(&[&["fit", &data, "--run", &run, "--target"][..], more].concat(), &[part]);
        assert!(!Path::new(&run).exists());
    };
    let rows: String = (0..40)
        .map(|k| format!("{k},{}\n", if k == 7 { "ten".to_owned() } else { (k * k).to_string() }))
        .collect();
    refuses(&format!("x,y\n{rows}"), &["y"], "line 9, column y: \"ten\"");
    refuses(&format!("x,price\n{rows}"), &["prize"], "price");
    // The table of the columns shows the beginning of a long name.
    let long: String = (0..40).map(|k| format!("{}.5,{}\n", k * 7 % 11, k * k)).collect();
    std::fs::write(&data, format!("{},y\n{long}", "x".repeat(100_000))).unwrap();
    let short = ["--target", "y", "--set", "training.steps=5", "--set", "members=1"];
    let other = folder.path().join("long").display().to_string();
    let [_, said] = succeeds(&[&["fit", &data, "--run", &other][..], &short].concat());
    assert!(said.len() < 4000, "{}", said.len());
    refuses("x,y\n1,2\n", &["y"], "at least 20");
    refuses("x,y\n1,2\n", &["y", "--positive", "x"], "no target");
    refuses("x,y\n1,2\n", &["y", "--bounded", "y=3"], "COLUMN=LOW,HIGH");
    refused(&["eval", "table", &data, "--run", &run], &["ebm fit"]);
}
