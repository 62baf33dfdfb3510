//! Files as people have them: what the columns are read as, number by number.

use std::io::Write;

use ebm_tabular::{ColumnRoles, Error, Features, Form, Kind, ReadOptions, Style, Table, TargetSpec};
use flate2::{Compression, write::GzEncoder};

/// Rows of a number in thousandths, a word, and a target in hundredths.
fn rows() -> Vec<(i64, &'static str, i64)> {
    let row = |k: i64| {
        (30_001 + k * 7919 % 40_000, ["north", "south", "east"][k as usize % 3], 5001 + k * 6133 % 19_000)
    };
    (0..120).map(row).collect()
}

/// A number of `size` digits behind the sign.
fn decimal(value: i64, digits: u32, sign: char) -> String {
    let unit = 10i64.pow(digits);
    format!("{}{sign}{:0width$}", value / unit, value % unit, width = digits as usize)
}

/// Writes a file: the first lines, and a line of each row.
fn file(first: &str, line: impl Fn(usize, &str, &str, &str) -> String) -> String {
    let line =
        |(k, (a, b, t)): (usize, &(i64, &str, i64))| line(k, &decimal(*a, 3, '.'), b, &decimal(*t, 2, '.'));
    first.to_owned() + &rows().iter().enumerate().map(line).collect::<String>()
}

/// The usual file.
fn plain() -> String {
    file("a,b,t\n", |_, a, b, t| format!("{a},{b},{t}\n"))
}

pub fn open(bytes: impl AsRef<[u8]>, options: &ReadOptions) -> Result<(Table, Features), Error> {
    let table = Table::from_bytes("t.csv", bytes.as_ref().to_vec(), options)?;
    let features = Features::find(&table, &[TargetSpec::real("t")], &ColumnRoles::default(), 0)?;
    Ok((table, features))
}

pub fn read(bytes: impl AsRef<[u8]>) -> (Table, Features) {
    open(bytes, &ReadOptions::default()).unwrap()
}

pub fn refused(bytes: impl AsRef<[u8]>) -> String {
    open(bytes, &ReadOptions::default()).err().unwrap().to_string()
}

/// What each column is read as.
pub fn kinds(features: &Features) -> Vec<(&str, &str)> {
    features.columns().iter().map(|column| (&*column.name, &*column.described)).collect()
}

/// The values of a column in the form that was found.
pub fn values(table: &Table, features: &Features, name: &str) -> Vec<Option<f64>> {
    let place = table.column(name).unwrap();
    match features.columns().iter().find(|column| column.name == name).map(|column| &column.kind) {
        Some(Kind::Number { form, .. }) => table.values(place, *form).unwrap(),
        Some(Kind::Category { .. }) => panic!("{name} holds categories"),
        _ => table.values(place, table.form(place, None).unwrap()).unwrap(),
    }
}

fn is_read(what: &str, bytes: impl AsRef<[u8]>, expected: &[(&str, &str)], scale: f64) -> (Table, Features) {
    let (table, features) = read(bytes);
    assert_eq!(kinds(&features), expected, "{what}");
    let t: Vec<Option<f64>> = rows().iter().map(|(_, _, t)| Some((*t as f64 * scale) / 100.0)).collect();
    assert_eq!(values(&table, &features, "t"), t, "{what}");
    if expected.iter().any(|(name, kind)| *name == "a" && kind.starts_with("number")) {
        let a: Vec<Option<f64>> = rows().iter().map(|(a, _, _)| Some(*a as f64 / 1000.0)).collect();
        assert_eq!(values(&table, &features, "a"), a, "{what}");
    }
    (table, features)
}

const USUAL: [(&str, &str); 3] = [("a", "number"), ("b", "category"), ("t", "target: number")];

#[test]
fn an_index_is_left_out_and_so_is_a_column_without_values() {
    let indexed = [("column 1", "index, left out"), USUAL[0], USUAL[1], USUAL[2]];
    let text = file(",a,b,t\n", |k, a, b, t| format!("{k},{a},{b},{t}\n"));
    is_read("pandas_index", &text, &indexed, 1.0);
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    is_read("gz", packer.finish().unwrap(), &indexed, 1.0);
    is_read(
        "an index with gaps",
        file(",a,b,t\n", |k, a, b, t| format!("{},{a},{b},{t}\n", 3 * k)),
        &indexed,
        1.0,
    );
    let named = [("id", "index, left out"), USUAL[0], USUAL[1], USUAL[2]];
    is_read("named", file("id,a,b,t\n", |k, a, b, t| format!("{},{a},{b},{t}\n", k + 1)), &named, 1.0);
    // A name and a gap in the counting: it may be a time.
    let skips = file("id,a,b,t\n", |k, a, b, t| format!("{},{a},{b},{t}\n", k + k / 119));
    is_read("named, not perfect", skips, &[("id", "number"), USUAL[0], USUAL[1], USUAL[2]], 1.0);
    let trailing = [USUAL[0], USUAL[1], USUAL[2], ("column 4", "left out")];
    is_read("trailing", file("a,b,t,\n", |_, a, b, t| format!("{a},{b},{t},\n")), &trailing, 1.0);
    // A single column is kept.
    let (_, alone) = read(file("k,t\n", |k, _, _, t| format!("{k},{t}\n")));
    assert_eq!(kinds(&alone)[0], ("k", "number"));
}

#[test]
fn numbers_have_the_signs_of_their_country() {
    let money = |text: &str| {
        let (whole, cents) = text.split_once('.').unwrap();
        let digits = whole.to_owned() + cents;
        let (thousands, rest) = digits.split_at(digits.len().saturating_sub(3));
        if thousands.is_empty() { format!("{rest}.00") } else { format!("{thousands},{rest}.00") }
    };
    let [a, b, _] = USUAL;
    let text = file("a,b,t\n", |_, a, b, t| format!("{a},{b},\"${}\"\n", money(t)));
    let (_, features) = is_read("money", text, &[a, b, ("t", "target: number in $, thousands ','")], 100.0);
    assert_eq!(features.columns()[2].values, "$5,001.00 to $23,769.00");
    let text = file("a,b,t\n", |_, a, b, t| format!("{a},{b},\"{}\"\n", money(t)));
    is_read("thousands", text, &[a, b, ("t", "target: number, thousands ','")], 100.0);
    let text = file("a;b;t\n", |_, a, b, t| {
        let swapped = money(t).replace(',', "X").replace('.', ",").replace('X', ".");
        format!("{};{b};{swapped}\n", a.replace('.', ","))
    });
    let german = [("a", "number, decimal comma"), b, ("t", "target: number, decimal comma, thousands '.'")];
    is_read("eu_thousands", text, &german, 100.0);
    let text = file("\u{feff}a;b;t\r\n", |_, a, b, t| format!("{a};{b};{t}\r\n").replace('.', ","));
    let comma = [("a", "number, decimal comma"), b, ("t", "target: number, decimal comma")];
    is_read("semicolon_comma", text, &comma, 1.0);
    let text = file("a,b,t\n", |_, a, b, t| format!("{a}%,{b},{t}\n"));
    is_read("percent", text, &[("a", "number in %"), b, USUAL[2]], 1.0);
    let grouped = |k: usize| {
        (
            3_000_001 + 7919 * k as i64,
            format!("{}_{:03}_{:03}", 3, (1 + 7919 * k) / 1000, (1 + 7919 * k) % 1000),
        )
    };
    let (table, features) = read(file("a,b,t\n", |k, _, b, t| format!("{},{b},{t}\n", grouped(k).1)));
    assert_eq!(kinds(&features)[0], ("a", "number, thousands '_'"));
    assert_eq!(
        values(&table, &features, "a"),
        (0..120).map(|k| Some(grouped(k).0 as f64)).collect::<Vec<_>>()
    );
    let text = file("a,b,t\n", |_, a, b, t| {
        let [a, t]: [f64; 2] = [a, t].map(|text| text.parse().unwrap());
        format!("{a:e},{b},{t:E}\n")
    });
    is_read("exp", text, &USUAL, 1.0);
    let big = |k: usize| 9_007_199_254_740_993 + 2 * k as i64;
    let (table, features) = read(file("id,b,t\n", |k, _, b, t| format!("{},{b},{t}\n", big(k))));
    assert_eq!(kinds(&features)[0], ("id", "number"));
    assert_eq!(values(&table, &features, "id"), (0..120).map(|k| Some(big(k) as f64)).collect::<Vec<_>>());
}

#[test]
fn dates_are_read_in_the_order_that_the_column_shows() {
    let [_, b, t] = USUAL;
    let text = file("when,b,t\n", |k, _, b, t| {
        format!("2024-03-{:02}T10:{:02}:00+02:00,{b},{t}\n", 1 + k % 28, k % 60)
    });
    let (table, features) = is_read("iso_tz", text, &[("when", "date (ymd)"), b, t], 1.0);
    // 2024-03-01 is day 19 783; 10:00 at +02:00 is 08:00.
    let days = |k: usize| 19_783.0 + (k % 28) as f64 + (480 + k % 60) as f64 / 1440.0;
    let found = values(&table, &features, "when");
    assert!((0..120).all(|k| (found[k].unwrap() - days(k)).abs() < 1e-9));
    let dates = |form: fn(usize, usize) -> String| {
        file("when,b,t\n", move |k, _, b, t| format!("{},{b},{t}\n", form(1 + k % 28, 1 + k % 12)))
    };
    // Days from 2024-01-01, which is day 19 723, to the first of each month of a leap year.
    let months = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];
    let expected: Vec<Option<f64>> =
        (0..120).map(|k| Some((19_723 + months[k % 12] + k % 28) as f64)).collect();
    for (form, name) in [
        ((|d, m| format!("{m}/{d}/2024")) as fn(usize, usize) -> String, "date (mdy)"),
        (|d, m| format!("{d}/{m}/2024"), "date (dmy)"),
        (|d, m| format!("{d:02}.{m:02}.2024"), "date (dmy)"),
        (|d, m| format!("{d:02}-{m:02}-2024 00:00:00"), "date (dmy)"),
        (|d, m| format!("2024/{m}/{d}"), "date (ymd)"),
    ] {
        let (table, features) = is_read("us_date", dates(form), &[("when", name), b, t], 1.0);
        assert_eq!(values(&table, &features, "when"), expected, "{name}");
    }
    let open_dates =
        file("when,b,t\n", |k, _, b, t| format!("{}/{}/2024,{b},{t}\n", 1 + k % 12, 1 + k * 5 % 11));
    let said = refused(&open_dates);
    assert!(
        said.contains("--read-as dmy or --read-as mdy")
            && said.contains("/2024\" may be a date (dmy) or a date (mdy)"),
        "{said}"
    );
    let options = ReadOptions { preferred: vec![Style::Dmy], ..ReadOptions::default() };
    let (_, features) = open(&open_dates, &options).unwrap();
    assert_eq!(kinds(&features)[0], ("when", "date (dmy)"));
    // What the fit knows decides a file that leaves it open, and a file that tells is read as it tells.
    let small = Table::parse("new.csv", "when,b\n3/4/2024,north\n").unwrap();
    let form = |table: &Table| features.encode(table).unwrap().x.to_vec2::<f32>().unwrap()[0][0];
    assert_eq!(form(&small), form(&Table::parse("new.csv", "when,b\n2024-04-03,north\n").unwrap()));
    let other = Table::parse("new.csv", "when,b\n3/4/2024,north\n3/14/2024,north\n").unwrap();
    assert_eq!(form(&other), form(&Table::parse("new.csv", "when,b\n2024-03-04,north\n").unwrap()));
}

#[test]
fn gaps_words_and_lines_that_are_no_rows() {
    let [a, _, t] = USUAL;
    let (table, features) =
        read(file("a,b,t\n", |k, a, b, t| format!("{},{b},{t}\n", if k % 7 == 0 { "#N/A" } else { a })));
    assert_eq!((kinds(&features), features.columns()[0].gaps), (USUAL.to_vec(), 18));
    let found = values(&table, &features, "a");
    assert!((0..120).all(|k| found[k].is_none() == (k % 7 == 0)));
    let (table, features) =
        read(file("a,b,t\n", |k, a, b, t| format!("{a},{b},{}\n", if k % 10 == 0 { "" } else { t })));
    assert_eq!((kinds(&features), features.columns()[2].gaps), (USUAL.to_vec(), 12));
    assert_eq!(values(&table, &features, "t").iter().flatten().count(), 108);
    let infinite = file("a,b,t\n", |k, a, b, t| format!("{},{b},{t}\n", if k == 5 { "inf" } else { a }));
    let said = refused(&infinite);
    assert!(said.contains("line 7, column a: \"inf\" is no number") && said.contains("--lenient"), "{said}");
    let lenient = ReadOptions { lenient: true, ..ReadOptions::default() };
    let (table, features) = open(&infinite, &lenient).unwrap();
    assert_eq!(features.encode(&table).unwrap().unknown["a"], 1);
    assert_eq!(features.columns()[0].gaps, 1);
    let text =
        file("a,flag,t\n", |k, a, _, t| format!("{a},{},{t}\n", if k % 3 == 0 { "TRUE" } else { "FALSE" }));
    let (_, features) = is_read("bool", text, &[a, ("flag", "category"), t], 1.0);
    assert_eq!(features.columns()[1].values, "2: FALSE, TRUE");
    is_read("spaces", file(" a , b , t \n", |_, a, b, t| format!(" {a} , {b} , {t} \n")), &USUAL, 1.0);
    let quoted = file("a,b,t\r\n", |_, a, b, t| format!("{a},\"multi\r\nline {b}\",{t}\r\n"));
    let (table, features) = is_read("crlf_quotes", quoted, &USUAL, 1.0);
    assert_eq!((table.line(0), table.line(119)), (2, 240));
    assert!(features.columns()[1].values.contains("multi\nline east"));

    let commented = file("# exported 2024\n# unit kg\na,b,t\n", |_, a, b, t| format!("{a},{b},{t}\n"));
    assert!(refused(&commented).contains("give --comment '#'"));
    let options = ReadOptions { comment: Some('#'), ..ReadOptions::default() };
    let (table, features) = open(&commented, &options).unwrap();
    assert_eq!((kinds(&features), table.rows(), table.line(0)), (USUAL.to_vec(), 120, 4));
    let said = refused(file("a,b,t\nunit,unit,unit\n", |_, a, b, t| format!("{a},{b},{t}\n")));
    assert!(said.contains("line 2 looks like a second line of names: unit, unit, unit; remove it"), "{said}");
    assert!(
        refused(file("a,a,t\n", |_, a, _, t| format!("{a},{a},{t}\n")))
            .contains("two columns are called \"a\"")
    );
    let said = refused(file("", |_, a, b, t| format!("{a},{b},{t}\n")));
    assert!(said.contains("there is no column \"t\""), "{said}");
}

#[test]
fn encodings_are_found() {
    let text = plain();
    let wide: Vec<u8> =
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let (table, _) = is_read("utf16", wide, &USUAL, 1.0);
    assert_eq!(table.encoding(), "UTF-16LE");
    let text = file("größe,b,t\n", |_, a, b, t| format!("{a},{},{t}\n", b.replace("south", "süd")));
    let latin: Vec<u8> = text.chars().map(|sign| sign as u8).collect();
    let (table, features) = is_read("latin1", latin, &[("größe", "number"), USUAL[1], USUAL[2]], 1.0);
    assert_eq!(table.encoding(), "windows-1252");
    assert!(features.columns()[1].values.contains("süd"));
    assert_eq!(table.values(0, Form { style: Style::Point, unit: None }).unwrap()[0], Some(30.001));
}

#[test]
fn what_is_mostly_numbers_is_never_left_out_as_names() {
    let mixed = |every: usize| {
        file("a,b,t\n", move |k, a, b, t| {
            format!("{},{b},{t}\n", if k % every == 1 { format!("~{a}") } else { a.to_owned() })
        })
    };
    for every in [3, 5, 11, 20] {
        let said = refused(mixed(every));
        assert!(said.contains("line 3, column a: \"~37.920\" is no number, nor is"), "{said}");
        let third = format!("in line {}", 3 + 2 * every);
        assert!(said.contains(&third) && said.contains("others; correct"), "{said}");
        let lenient = ReadOptions { lenient: true, ..ReadOptions::default() };
        let (_, features) = open(mixed(every), &lenient).unwrap();
        assert_eq!(features.columns()[0].gaps, (0..120).filter(|k| k % every == 1).count());
    }
    // Below half they are names, and the description says why they are left out.
    let (_, features) = read(file("a,b,t\n", |k, a, b, t| {
        format!("{},{b},{t}\n", if k % 3 > 0 { format!("~{a}") } else { a.to_owned() })
    }));
    assert_eq!(kinds(&features)[0], ("a", "left out"));
    assert!(features.columns()[0].values.contains("look like names"));
}

#[test]
fn a_file_to_predict_may_be_written_otherwise() {
    let (_, features) = read(plain());
    let x = |text: &str| features.encode(&Table::parse("new.csv", text).unwrap());
    let first = |text: &str| x(text).unwrap().x.to_vec2::<f32>().unwrap()[0][0];
    let expected = first("a,b\n50.5,north\n");
    for text in ["a;b\n50,5;north\n", "b\ta\nnorth\t50.5\n", "a,b\n\"50,5\",north\n", "b;a\nx;$50,50\n"] {
        assert_eq!(first(text), expected, "{text:?}");
    }
    // Between semicolons a comma is one of decimals; between tabs the fit decides.
    assert_eq!(first("a;b\n50,500;north\n"), expected);
    assert_eq!(first("a\tb\n50.500\tnorth\n"), expected);
    let said = x("a,b\n50%,north\n").err().unwrap().to_string();
    assert!(said.contains("line 2, column a: \"50%\" is no number"), "{said}");
    let said = refused(file("a;b;t\n", |_, a, b, t| format!("{a};{b};{}\n", t.replace('.', ""))));
    assert!(said.contains("\"30.001\" may be 30.001 or 30001, and no other cell tells; give --read-as point or --read-as comma"), "{said}");
}
