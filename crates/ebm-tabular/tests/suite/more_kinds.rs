//! Further forms that people report trouble with, in issues of pandas, polars, DuckDB and scikit-learn: each is read right
//! or refused with what to do.

use ebm_tabular::{Kind, ReadOptions, Style};

use crate::kinds::{kinds, open, read, refused, values};

/// A file of a column `a` with these cells in turn, and a target.
fn column(name: &str, cells: &[&str]) -> String {
    let row = |k: usize| format!("\"{}\"\t{}.5\n", cells[k % cells.len()].replace('"', "\"\""), k * k % 97);
    format!("{name}\tt\n") + &(0..40).map(row).collect::<String>()
}

/// The kind of the first column and its first values.
fn found(cells: &[&str]) -> (String, Vec<Option<f64>>) {
    let (table, features) = read(column("a", cells));
    let kind = features.columns()[0].described.clone();
    let is_value = matches!(features.columns()[0].kind, Kind::Number { .. });
    let values = if is_value { values(&table, &features, "a") } else { vec![] };
    (kind, values.into_iter().take(cells.len()).collect())
}

#[test]
fn numbers_of_many_countries_and_programs() {
    for (cells, kind, expected) in [
        (
            &["1\u{a0}234,5", "2\u{a0}345,25"][..],
            "number, decimal comma, thousands ' '",
            &[1234.5, 2345.25][..],
        ),
        (&["1\u{202f}234,5", "345,2"], "number, decimal comma, thousands ' '", &[1234.5, 345.2]),
        (&["1'234.5", "12’345.25"], "number, thousands '\\''", &[1234.5, 12_345.25]),
        (&["12,34,567", "1,23,45,678"], "number, thousands ','", &[1_234_567.0, 12_345_678.0]),
        (&["(1,234)", "2,345.5", "(7)"], "number, thousands ','", &[-1234.0, 2345.5, -7.0]),
        (&["5-", "7"], "number", &[-5.0, 7.0]),
        (&["+5", "-3", "+0.5"], "number", &[5.0, -3.0, 0.5]),
        (&["−5", "−3.5", "2"], "number", &[-5.0, -3.5, 2.0]),
        (&["１２", "３．５"], "number", &[12.0, 3.5]),
        (&["5", "7.25"], "number", &[5.0, 7.25]),
        // A code that looks like a number is one; --category makes it a code.
        (&["00501", "90210", "02134"], "number", &[501.0, 90_210.0, 2134.0]),
        (&["-999", "3", "5"], "number", &[-999.0, 3.0, 5.0]),
        (&["1709251200", "1709337600"], "number", &[1_709_251_200.0, 1_709_337_600.0]),
        (&["12,5 %", "7 %"], "number in %, decimal comma", &[12.5, 7.0]),
        (
            &["€ 1.234,50", "12 €", "-3,5€"],
            "number in €, decimal comma, thousands '.'",
            &[1234.5, 12.0, -3.5],
        ),
    ] {
        let (found_kind, found_values) = found(cells);
        assert_eq!(
            (&*found_kind, found_values),
            (kind, expected.iter().copied().map(Some).collect()),
            "{cells:?}"
        );
    }
    let said = refused(column("a", &["¥1,500", "-¥20", "£3.5e2"]));
    assert!(said.contains("line 4, column a: \"£3.5e2\" is no number in ¥"), "{said}");
    // Nothing tells whether it is 1.234 or 1234: a tab separates both kinds of files.
    for cells in [["1.234", "5.678"], ["1,234", "5,678"]] {
        let decided = column("a", &cells).replace(".5\n", "\n");
        assert!(refused(&decided).contains("give --read-as point or --read-as comma"));
        let options = ReadOptions { preferred: vec![Style::Comma], ..ReadOptions::default() };
        let (table, features) = open(&decided, &options).unwrap();
        let expected = if cells[0] == "1.234" { 1234.0 } else { 1.234 };
        assert_eq!(values(&table, &features, "a")[0], Some(expected));
    }
    assert_eq!(found(&["1.234", "5.678"]).1, [Some(1.234), Some(5.678)]);
}

#[test]
fn dates_of_many_programs() {
    // 2024-03-03 is day 19 785, and 2024-09-03 day 19 969.
    for (cells, kind, expected) in [
        (&["Sept 3, 2024", "Mar 3, 2024"][..], "date (mdy)", &[19_969.0, 19_785.0][..]),
        (&["03-Mar-2024", "03-Sep-2024"], "date (dmy)", &[19_785.0, 19_969.0]),
        (&["3/14/24", "3/3/24"], "date (mdy)", &[19_796.0, 19_785.0]),
        (&["27.03.2003 12:00:00.000", "03.08.2003 18:00:00.000"], "date (dmy)", &[12_138.5, 12_267.75]),
        // Dots are of one order.
        (&["03.04.2024", "01.03.2024"], "date (dmy)", &[19_816.0, 19_783.0]),
        (&["03.04.24", "01.03.24"], "date (dmy)", &[19_816.0, 19_783.0]),
        (&["Nov 14,2013", "Nov 4,2013"], "date (mdy)", &[16_023.0, 16_013.0]),
        (&["2024-03-03 12:00 AM", "2024-09-03 6:00 PM"], "date (ymd)", &[19_785.0, 19_969.75]),
        (&["13:30", "06:00:00"], "time of day", &[0.5625, 0.25]),
        (&["2608-01-01", "1900-01-01"], "date (ymd)", &[233_024.0, -25_567.0]),
    ] {
        let (found_kind, found_values) = found(cells);
        assert_eq!(
            (&*found_kind, found_values),
            (kind, expected.iter().copied().map(Some).collect()),
            "{cells:?}"
        );
    }
    let said = refused(column("a", &["03/04/05", "04/05/06"]));
    assert!(
        said.contains(
            "may be a date (ymd) or a date (dmy), and no other cell tells; give --read-as ymd or --read-as dmy"
        ),
        "{said}"
    );
    let rows = ["2024-03-01", "2024-02-30", "2024-03-02", "2024-03-05", "2024-03-09"];
    let cells: Vec<&str> = (0..20).map(|k| if k == 7 { rows[1] } else { rows[2 + k % 3] }).collect();
    let said = refused(column("a", &cells));
    assert!(
        said.contains("line 9, column a: \"2024-02-30\" is no date (ymd), nor is \"2024-02-30\" in line 29"),
        "{said}"
    );
}

#[test]
fn gaps_of_many_programs_and_words_that_are_none() {
    let gaps = [
        "NaN", "-nan", "N.A.", ".", "<NA>", "NULL", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!",
        "#NULL!", "\\N", "--", "NaT", "n/a",
    ];
    let cells: Vec<&str> = ["1.5", "2.5"].into_iter().chain(gaps).collect();
    let (kind, values) = found(&cells);
    assert_eq!(kind, "number");
    assert_eq!((values[0], values[1], values[2..].iter().flatten().count()), (Some(1.5), Some(2.5), 0));
    // Of one column in ten a word may be meant: it is an error, and not a category.
    let some: Vec<&str> =
        ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"].into_iter().chain(["8011-N"]).collect();
    let said = refused(column("a", &some));
    assert!(
        said.contains("line 13, column a: \"8011-N\" is no number, nor is \"8011-N\" in line 25, nor is"),
        "{said}"
    );
    for cells in [&["0x1F", "0x2A"][..], &["1/2", "3/4"], &["18-24", "25-34", "65+"], &["1.2.3", "1.3.0"]] {
        assert_eq!(found(cells).0, "category", "{cells:?}");
    }
}

#[test]
fn lines_and_names_of_many_programs() {
    let small = |end: &str| (0..30).map(|k| format!("{k}.5,{}{end}", k * k)).collect::<String>();
    let read_t = |text: &[u8]| {
        let (table, features) = read(text);
        assert_eq!(
            kinds(&features).last(),
            Some(&("t", "target: number")),
            "{:?}",
            String::from_utf8_lossy(text)
        );
        let expected: Vec<Option<f64>> = (0..30).map(|k| Some(f64::from(k * k))).collect();
        assert_eq!(values(&table, &features, "t")[..30], expected);
        assert_eq!(
            table.line(table.rows() - 1),
            table.rows() as u64 + if text.starts_with(b"sep") { 2 } else { 1 }
        );
        table
    };
    for end in ["\r", "\r\n", "\n"] {
        read_t(format!("a,t{end}{}", small(end)).as_bytes());
    }
    read_t(format!("a,t\r\n{}{}", &small("\n")[..60], &small("\n")[60..]).as_bytes());
    read_t(format!("\u{feff}\"a\",\"t\"\n{}", small("\n")).as_bytes());
    read_t(format!("a,t\n{}\n\n\r\n", small("\n")).as_bytes());
    read_t(format!("a,t\n{},\n,\n", small("\n")).as_bytes());
    let table = read_t(format!("sep=;\r\na;t\r\n{}", small("\r\n").replace(',', ";")).as_bytes());
    assert_eq!(table.delimiter(), ';');
    read_t(format!("a\tt \n{}", small(" \n").replace(',', "\t")).as_bytes());
    let table = read_t(format!("price [€],t\n{}", small("\n")).as_bytes());
    assert_eq!(table.columns()[0], "price [€]");
    let long = "x".repeat(1 << 20);
    read_t(format!("{long},t\n{}", small("\n")).as_bytes());
    let (table, features) = read(format!("\"a\r\nb\",t\r\n{}", small("\r\n")));
    assert_eq!((table.columns()[0].as_str(), table.line(0), features.dim()), ("a\nb", 3, 1));

    for (text, reason) in [
        (format!("a, a ,t\n{}", small("\n")), "two columns are called \"a\""),
        (format!("a,t\n{}Total,,1234\n", small("\n")), "line 32: 3 values where the names are 2"),
        (format!("a,t\n{}Total,1234\n", small("\n")), "line 32, column a: \"Total\" is no number"),
        (format!("a,t\n{}7\n", small("\n")), "line 32: 1 values where the names are 2"),
        (format!("Report of 2024\na,t\n{}", small("\n")), "a single column"),
        (format!("a,t\n1,\0\n{}", small("\n")), "line 2 has a zero byte"),
        (format!("a,t\n{}1,1,234.5\n", small("\n")), "put quotes about a value"),
        (
            format!("a,t\n{}1,\"open\n2,3\n", small("\n")),
            "line 32: a quote begins in this row and never ends",
        ),
    ] {
        let said = refused(&text);
        assert!(said.contains(reason), "{said}");
    }
}
