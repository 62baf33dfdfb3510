//! Files as they are found, and columns as they are understood.

use ebm_tabular::{
    ColumnRoles, Error, Features, FitOptions, ReadOptions, Table, TabularRegressor, TargetSpec,
};

use crate::small;

fn said(result: Result<impl Sized, Error>) -> String {
    result.err().map(|error| error.to_string()).unwrap()
}

fn numbers(table: &Table, column: usize) -> Result<Vec<Option<f64>>, Error> {
    table.values(column, table.form(column, None)?)
}

#[test]
fn separators_commas_quotes_and_marks_are_found() {
    let table = Table::parse("t", "\u{feff}name;size\n\"a;b\";1,5\nc;-2\n").unwrap();
    assert_eq!((table.columns(), table.delimiter()), (&["name".to_owned(), "size".to_owned()][..], ';'));
    assert_eq!(table.text(0, 0), Some("a;b"));
    let spaced = Table::parse("t", "a,b\n NA ,2\n").unwrap();
    assert_eq!((spaced.cell(0, 0), spaced.text(0, 0)), (" NA ", None));
    assert_eq!(numbers(&table, 1).unwrap(), [Some(1.5), Some(-2.0)]);
    assert_eq!(numbers(&Table::parse("t", "a,b\n1,2\n").unwrap(), 1).unwrap(), [Some(2.0)]);
}

#[test]
fn what_is_no_table_says_where_and_why() {
    assert!(said(Table::parse("t", "a,b,a\n1,2,3\n")).contains("two columns are called \"a\""));
    assert!(said(Table::parse("t", "a,b\n")).contains("no row"));
    assert!(said(Table::parse("t", "")).contains("single column"));
    assert!(said(Table::parse("t", "a\n1\n")).contains("single column"));
    let unequal = said(Table::parse("t", "a,b\n1,2\n1,2,3\n"));
    assert!(unequal.contains("line 3") && unequal.contains("3 values where the names are 2"), "{unequal}");
    let cell = said(numbers(&Table::parse("t", "a,b\n1,x\n").unwrap(), 1));
    assert!(cell.contains("line 2, column b") && cell.contains("\"x\""), "{cell}");
    // With line ends of two bytes too.
    let table = Table::parse("t", "a,b\r\n1,2\r\n3,x\r\n").unwrap();
    assert_eq!([0, 1].map(|row| table.line(row)), [2, 3]);
    assert!(Table::parse("t", "a,b\r\n1,2\r\n3\r\n").unwrap_err().to_string().contains("line 3"));
    assert!(said(Table::parse("t", "size,price\n1,2\n").unwrap().column("prize")).contains("price"));
}

fn in_memory(columns: &[(&str, &[&str])]) -> Result<Table, Error> {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let columns = columns.iter().map(|(name, texts)| ((*name).to_owned(), owned(texts))).collect();
    Table::from_columns("memory", columns, &ReadOptions::default())
}

#[test]
fn columns_in_memory_are_read_as_their_file_is() {
    let table =
        in_memory(&[(" count", &["0", "1", "2"]), ("b", &["1,234", "", "5"]), ("y", &["3", "1", "2"])]);
    let table = table.unwrap();
    assert_eq!(numbers(&table, 1).unwrap(), [Some(1234.0), None, Some(5.0)]);
    // A column that counts the rows is an index in a file alone.
    let targets = [TargetSpec::real("y")];
    assert_eq!(Features::find(&table, &targets, &ColumnRoles::default(), 0).unwrap().dim(), 3);
    assert_eq!(find("count,b,y\n0,1234,3\n1,,1\n2,5,2\n", &ColumnRoles::default()).unwrap().dim(), 2);
    let cell = said(numbers(&in_memory(&[("a", &["1", "x"])]).unwrap(), 0));
    assert!(cell.contains("memory, line 2, column a"), "{cell}");
    assert!(said(in_memory(&[("a", &["1"]), ("a ", &["1"])])).contains("two columns are called \"a\""));
    for wrong in [&[][..], &[("a", &[][..])], &[("a", &["1"][..]), ("b", &["1", "2"][..])]] {
        assert!(said(in_memory(wrong)).contains("the same number of rows"));
    }
}

#[test]
fn a_fit_ends_when_it_is_stopped_and_takes_the_rows_that_its_caller_allows() {
    let texts: Vec<String> = (0..6).map(|k| k.to_string()).collect();
    let columns = vec![("x".to_owned(), texts.clone()), ("y".to_owned(), texts)];
    let table = Table::from_columns("memory", columns, &ReadOptions::default()).unwrap();
    let mut options = FitOptions::new("y");
    let fit = |options: &FitOptions| TabularRegressor::fit(&table, options, &small(), &mut |_| {});
    assert!(said(fit(&options)).contains("at least 20 are needed"));
    options.min_rows = 6;
    options.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(said(fit(&options)).contains("stopped after 0 steps"));
    options.stop.store(false, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(fit(&options).unwrap().fitted().rows, 6);
}

fn find(text: &str, roles: &ColumnRoles) -> Result<Features, Error> {
    Features::find(&Table::parse("t", text).unwrap(), &[TargetSpec::real("y")], roles, 0)
}

/// Work that grew with the square of the columns would take minutes.
#[test]
fn a_table_may_have_very_many_columns() {
    const COUNT: usize = 100_000;
    let begun = std::time::Instant::now();
    let line = |first: &str, cell: &dyn Fn(usize) -> String| {
        first.to_owned() + &(0..COUNT).map(cell).collect::<String>() + "\n"
    };
    let rows: String = (0..2).map(|row| line("1", &|k| format!(",{}", (k + row) % 3))).collect();
    let text = line("y", &|k| format!(",c{k}")) + &rows;
    let features = find(&text, &ColumnRoles::default()).unwrap();
    assert_eq!(features.dim(), COUNT);
    let encoded = features.encode(&Table::parse("t", &text).unwrap()).unwrap();
    assert_eq!(encoded.x.dims(), [2, COUNT]);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

/// 41 even values in 4 bins of 10; the mean is 20 and the variance (41² − 1)/12.
#[test]
fn bins_hold_the_same_number_of_rows() {
    let rows: String = (0..41).map(|k| format!("{k},{},{}\n", (k / 2) * 2 + k % 2, k / 36)).collect();
    let table = Table::parse("t", format!("y,a,b\n{rows}").as_str()).unwrap();
    let found =
        |bins| Features::find(&table, &[TargetSpec::real("y")], &ColumnRoles::default(), bins).unwrap();
    let bins = found(4).bins();
    // Most values of b are the same, so that it has no two bins.
    assert!(bins.len() == 4 && bins.iter().all(|bin| bin.input == 0));
    for (place, bin) in bins.iter().enumerate() {
        let ends = [place, place + 1].map(|k| (10.0 * k as f64 - 20.0) / 140f64.sqrt());
        assert!(bin.ends.iter().zip(ends).all(|(found, end)| (found - end).abs() < 1e-12), "{bin:?}");
        assert_eq!((bin.is_outer, bin.mean), ([place == 0, place == 3], 0.875 - 0.25 * place as f64));
    }
    // Each bin has at least ten rows.
    assert_eq!((found(32).bins().len(), found(0).bins().len(), found(4).without_bins()), (4, 0, found(0)));
}

/// The column has the mean 1 and the deviation 1.
#[test]
fn inputs_are_at_most_ten_deviations_from_the_mean() {
    let features = find("y,a\n1,0\n2,2\n3,0\n4,2\n", &ColumnRoles::default()).unwrap();
    let new = Table::parse("new", "a,b\n0,\n10.5,\n-8.5,\n11.5,\n1e300,\n-1e9,\n").unwrap();
    let x = features.encode(&new).unwrap().x.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert_eq!(x, [-1.0, 9.5, -9.5, 10.0, 10.0, -10.0]);
}

#[test]
fn columns_are_typed_by_what_they_hold() {
    let text = "y,number,gap,day,kind,same,code\n1,1,,2024-01-01,a,7,1\n2,3,5,2024-01-03,b,7,2\n3,5,NA,2024-01-05,a,7,1\n";
    let roles = ColumnRoles { categories: vec!["code".to_owned()], ..ColumnRoles::default() };
    let features = find(text, &roles).unwrap();
    let kinds: Vec<&str> = features.columns().iter().map(|column| &*column.described).collect();
    assert_eq!(
        kinds,
        ["target: number", "number", "number", "date (ymd)", "category", "left out", "category"]
    );
    assert_eq!(features.columns()[5].values, "all its values are the same");
    let root = 1.5f32.sqrt();
    let encoded = features.encode(&Table::parse("t", text).unwrap()).unwrap();
    let x = encoded.x.to_vec2::<f32>().unwrap();
    let expected = [
        [-root, 0.0, 1.0, -root, 1.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0],
        [root, 0.0, 1.0, root, 1.0, 0.0, 1.0, 0.0],
    ];
    for (row, expected) in x.iter().zip(expected) {
        assert!(row.iter().zip(expected).all(|(found, value)| (found - value).abs() < 1e-6), "{row:?}");
    }
    // An unknown text has no input of its own and is counted; a missing column is an error.
    let new = Table::parse("new", "number,gap,day,kind,code\n1,2,2024-01-01,z,1\n").unwrap();
    assert_eq!(features.encode(&new).unwrap().unknown["kind"], 1);
    let missing = Table::parse("new", "number,gap,day,code\n1,2,2024-01-01,1\n").unwrap();
    assert!(said(features.encode(&missing)).contains("\"kind\""));
}

#[test]
fn a_text_among_numbers_is_named() {
    let rows: String = (0..30)
        .map(|k| format!("{k},{}\n", if k == 20 { "twelve".to_owned() } else { k.to_string() }))
        .collect();
    let said = said(find(&format!("y,size\n{rows}"), &ColumnRoles::default()));
    assert!(said.contains("line 22, column size") && said.contains("twelve"), "{said}");
    let ignored = ColumnRoles { ignored: vec!["a".to_owned()], ..ColumnRoles::default() };
    assert!(self::said(find("y,a\n1,2\n2,3\n", &ignored)).contains("no column is left"));
}

#[test]
fn too_little_and_too_equal_is_refused() {
    let fit = |text: &str| {
        let table = Table::parse("t", text).unwrap();
        TabularRegressor::fit(&table, &FitOptions::new("y"), &small(), &mut |_| {})
    };
    assert!(said(fit("x,y\n1,2\n2,3\n3,4\n")).contains("3 rows, and at least 20"));
    let same: String = (0..30).map(|k| format!("{k},5\n")).collect();
    assert!(said(fit(&format!("x,y\n{same}"))).contains("is 5 in all rows"));
    let text: String = (0..30).map(|k| format!("{k},{}\n", if k == 3 { "high" } else { "1" })).collect();
    assert!(said(fit(&format!("x,y\n{text}"))).contains("line 5, column y"));
    let table = Table::parse("t", "x,y\n1,0\n2,3\n").unwrap();
    let spec = TargetSpec { support: ebm_tabular::Support::Positive, ..TargetSpec::real("y") };
    assert!(said(ebm_tabular::Target::read(&spec, &table)).contains("not above 0"));
}
