//! Files that are read in blocks, and samples of their rows.

use std::io::Write;

use ebm_base::Key;
use ebm_tabular::{Blocks, Error, ReadOptions, Source, Table};

/// 9 000 rows with quoted line ends, blank lines, comments and line ends of two bytes: three blocks.
fn text() -> String {
    let row = |k: usize| match k % 97 {
        0 => format!("{k},\"no. {k},\r\n\"\"so\"\"\",{}.5\r\n\r\n# a comment\r\n", k % 7),
        1 => format!("{k},NA,\r\n"),
        _ => format!("{k},é,{}\r\n", k % 7),
    };
    format!("# exported\r\n\r\nid,name,y\r\n{}", (0..9000).map(row).collect::<String>())
}

fn options() -> ReadOptions {
    ReadOptions { comment: Some('#'), ..ReadOptions::default() }
}

#[test]
fn blocks_have_the_rows_of_the_table_in_their_lines() {
    let all = Table::from_bytes("t", text().into_bytes(), &options()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [plain, packed] = ["t.csv", "t.csv.gz"].map(|name| folder.path().join(name));
    std::fs::write(&plain, text()).unwrap();
    let mut packer =
        flate2::write::GzEncoder::new(std::fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    packer.write_all(text().as_bytes()).unwrap();
    packer.finish().unwrap();
    for source in [Source::Bytes(text().into_bytes()), Source::File(plain), Source::File(packed)] {
        let blocks = Blocks::open("t", source, &options()).unwrap();
        assert_eq!((blocks.rows(), blocks.table().rows(), all.rows()), (9000, 0, 9000));
        assert_eq!(blocks.table().columns(), all.columns());
        let (mut row, mut sizes) = (0, vec![]);
        blocks
            .each(|block| {
                sizes.push(block.rows());
                for own in 0..block.rows() {
                    assert_eq!(block.line(own), all.line(row));
                    assert!((0..3).all(|column| block.cell(own, column) == all.cell(row, column)), "{row}");
                    row += 1;
                }
                let form = block.form(2, None)?;
                assert_eq!(form, all.form(2, None)?);
                assert_eq!(block.values(2, form)?.len(), block.rows());
                Ok::<(), Error>(())
            })
            .unwrap();
        assert_eq!((row, &*sizes), (9000, &[4096, 4096, 808][..]));
    }
    // The lines are those of the file: a row of 97 begins with a cell of two lines, and ends with two lines that are none.
    assert_eq!([0, 1, 96, 97, 98].map(|row| all.line(row)), [4, 8, 103, 104, 108]);
}

#[test]
fn errors_name_the_line_in_any_block() {
    for end in ["1,2\n", "1,\0,3\n"] {
        let text = text() + end;
        let said = Blocks::open("t", Source::Bytes(text.clone().into_bytes()), &options()).err().unwrap();
        // 93 rows have two lines more within and after them, and one more; three lines are above the first row.
        let line = format!("line {}", 3 + 9000 + 93 * 3 + 1);
        assert!(said.to_string().contains(&line), "{said}, {line}");
    }
    let said = Blocks::open("t", Source::File("none.csv".into()), &options()).err().unwrap();
    assert!(said.to_string().contains("none.csv"), "{said}");
}

/// A quote that never ends must not take the rows below it in silence.
#[test]
fn a_quote_that_never_ends_is_named_with_its_line() {
    let rows = |mark: &str| -> String {
        let row = |k: i32| format!("{k}.5,{},{}xyz\n", k % 7, if k == 39 { mark } else { "" });
        "y,a,k\n".to_owned() + &(0..80).map(row).collect::<String>()
    };
    let open = |text: String| Blocks::open("t", Source::Bytes(text.into_bytes()), &ReadOptions::default());
    assert_eq!(open(rows("")).unwrap().rows(), 80);
    assert_eq!(open(rows("").trim_end().to_owned()).unwrap().rows(), 80);
    let said = open(rows("\"")).err().unwrap().to_string();
    assert!(said.contains("line 41") && said.contains("never ends"), "{said}");
}

#[test]
fn a_cell_has_a_limit() {
    let open = |bytes: usize| {
        let text = format!("a,b\n1,2\n\n3,\"{}\"\n", "x".repeat(bytes));
        Blocks::open("t", Source::Bytes(text.into_bytes()), &ReadOptions::default())
    };
    assert_eq!(open(1 << 20).unwrap().rows(), 2);
    let said = open((1 << 20) + 1).err().unwrap().to_string();
    assert!(said.contains("line 4, column b: 1048577 bytes, and a cell may have 1048576"), "{said}");
}

/// Each of 12 rows is in a sample of 4 in a third of 900 cases: 300 ± 14.
#[test]
fn a_sample_has_every_row_as_often_and_the_forms_of_all() {
    let rows: String =
        (0..12).map(|k| format!("{k},{}/4/2024\n", if k == 11 { 13 } else { k + 1 })).collect();
    let sample = |count: usize, seed: u64| {
        let source = Source::Bytes(format!("x,day\n{rows}").into_bytes());
        Blocks::sample("t", source, &ReadOptions::default(), count, Key::new(seed)).unwrap()
    };
    let mut counts = [0; 12];
    for seed in 0..900 {
        let (table, seen) = sample(4, seed);
        assert_eq!((table.rows(), seen), (4, 12));
        let kept: Vec<usize> = (0..4).map(|row| table.text(row, 0).unwrap().parse().unwrap()).collect();
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]), "{kept:?}");
        assert!((0..4).all(|row| table.line(row) == kept[row] as u64 + 2));
        kept.into_iter().for_each(|row| counts[row] += 1);
        // The last row shows the order of day and month, whether it is drawn or not.
        let day = table.values(1, table.form(1, None).unwrap()).unwrap();
        assert!(day.iter().flatten().all(|day| (19_723.0 + 91.0..19_723.0 + 121.0).contains(day)), "{day:?}");
    }
    assert!(counts.iter().all(|count| (240..360).contains(count)), "{counts:?}");
    let (table, seen) = sample(50, 0);
    assert_eq!((table.rows(), seen), (12, 12));
    assert_eq!(sample(0, 0).0.rows(), 0);
}
