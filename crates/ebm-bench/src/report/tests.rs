//! The page from fixed numbers.

use super::*;
use crate::compare::PeerSeries;
use crate::stages::NAMES;
use crate::work;

fn series(seconds: &[f64], peak_mib: u64) -> Series {
    Series { seconds: seconds.to_vec(), peak_mib: Some(peak_mib) }
}

fn report(with_peer: bool) -> Report {
    let peer =
        |form: &str, seconds: &[f64]| PeerSeries { form: form.to_owned(), series: series(seconds, 700) };
    let row = |name: &str, peers: Vec<PeerSeries>, notes: &[&str]| Row {
        work: work::works(false, true).into_iter().find(|work| work.name == name).unwrap(),
        cost: Cost { operations: 4e9, bytes: 2e7 },
        measured: Measured {
            ours: series(&[0.04, 0.05, 0.09], 250),
            peers: if with_peer { peers } else { Vec::new() },
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
        },
    };
    let machine = Machine {
        cpu: "A processor".to_owned(),
        cores: 2,
        caches: "L1d 32KiB per core".to_owned(),
        memory: "8.0 GiB".to_owned(),
        instructions: "AVX2".to_owned(),
        system: "An OS 1 x86_64".to_owned(),
    };
    let peer_versions = Versions {
        python: "3.1".to_owned(),
        torch: "2.1".to_owned(),
        runtimes: [("openvino".to_owned(), "7.0".to_owned())].into(),
        instructions: "AVX2".to_owned(),
        import_mib: Some(123),
    };
    Report {
        date: "2026-01-02".to_owned(),
        command: "ebm bench".to_owned(),
        machine,
        software: Software { ebm: "0.1.0", candle: "0.11", rustc: "1.95" },
        peaks: vec![
            Peak { of: "1 thread".to_owned(), gflops: 100.0, gigabytes: 8.0 },
            Peak { of: "2 threads".to_owned(), gflops: 200.0, gigabytes: 10.0 },
        ],
        peer: with_peer.then_some(peer_versions),
        threads: 2,
        rounds: 3,
        smoke: false,
        device: "cpu".to_owned(),
        rows: vec![
            row(
                "conv-forward",
                vec![peer("eager", &[0.1, 0.1, 0.2]), peer("compile", &[0.08, 0.1, 0.1])],
                &[],
            ),
            row(
                "head-100-forward",
                vec![peer("eager", &[0.02, 0.025, 0.03])],
                &["compile does not work here: no g++"],
            ),
        ],
        stages: None,
    }
}

/// The cells of each line of the page's tables.
fn cells(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_page_says_what_was_measured() {
    let page = report(true).page("results/page.csv").unwrap();
    let cells = cells(&page);
    let rows = [
        // Times.
        "3×3 256→256 on 100×136, forward|ms|40.0 (50.0)|80.0 (100)|compile|0.50|0.50|≤ 0.6|yes|250|700",
        "head, 100 rows, forward|ms|40.0 (50.0)|20.0 (25.0)|eager|2.00|2.00|≤ 1.0|no, 2.00 × the goal|250|700",
        // Every form.
        "work|unit|ours|eager|compile",
        "3×3 256→256 on 100×136, forward|ms|40.0 (50.0)|100 (100)|80.0 (100)",
        "head, 100 rows, forward|ms|40.0 (50.0)|20.0 (25.0)|–",
        // Limits: 4 GFLOP at 200 GFLOP/s take 20 ms, 20 MB at 10 GB/s take 2 ms; 4 GFLOP in 40 ms are 100
        // GFLOP/s.
        "head, 100 rows, forward|4.00|20.0|20.0|arithmetic|100|50 %",
        "processor|A processor",
        "torch|2.1",
        "openvino|7.0",
        "threads of each side|2",
    ];
    for row in rows {
        let expected: Vec<&str> = row.split('|').collect();
        assert!(cells.contains(&expected), "{row}\n{page}");
    }
    for part in [
        "`ebm bench` on 2026-01-02 (UTC).\n",
        "1 of 2 goals are met.",
        "PyTorch's own libraries are 123 MiB of it",
        "- head, 100 rows, forward: compile does not work here: no g++\n",
        "1 thread: 100 GFLOP/s in f32, 8.00 GB/s; 2 threads: 200 GFLOP/s in f32, 10.0 GB/s.",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("no peer"));
}

#[test]
fn without_a_peer_there_is_no_ratio() {
    let page = report(false).page("results/page.csv").unwrap();
    assert!(
        page.contains("There was no PyTorch on this machine") && !page.contains("goals are met"),
        "{page}"
    );
    let expected: Vec<&str> =
        "head, 100 rows, forward|ms|40.0 (50.0)|–|–|–|–|≤ 1.0|–|250|–".split('|').collect();
    assert!(cells(&page).contains(&expected), "{page}");
}

#[test]
fn a_work_bound_by_memory_says_so() {
    let mut report = report(true);
    report.rows[0].cost = Cost { operations: 1e9, bytes: 1e9 };
    let page = report.page("results/page.csv").unwrap();
    let expected: Vec<&str> =
        "3×3 256→256 on 100×136, forward|1.00|1000|100|memory|25.0|12 %".split('|').collect();
    assert!(cells(&page).contains(&expected), "{page}");
}

#[test]
fn the_file_has_the_figures_of_the_page() {
    let text = String::from_utf8(report(true).csv().unwrap()).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    // The titles hold commas, which are quoted: the last line is read from its end.
    let last = lines.next_back().unwrap();
    let value = |name: &str| {
        let from_end = header.len() - header.iter().position(|column| *column == name).unwrap();
        last[last.len() - from_end]
    };
    // 40 ms against 20 ms with a goal of 1; 4 GFLOP in 40 ms at a peak of 200 GFLOP/s.
    for (name, expected) in [
        ("ours", "40.000000"),
        ("peer_median", "25.000000"),
        ("off_goal", "2.000000"),
        ("of_peak", "0.500000"),
        ("compile", ""),
        ("eager", "20.000000"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    let page = report(true).page("results/page.csv").unwrap();
    let marker = "<!-- table: results/page.csv\nby: ebm bench\nrows: work\ncolumns: =unit | ours ours_median \
                  | eager eager_median | compile compile_median\n-->\n| work";
    assert!(page.contains(marker), "{page}");
}

#[test]
fn stages_have_a_table_and_a_file() {
    let mut report = report(true);
    assert!(report.stages_csv().unwrap().is_none());
    let precision = ebm_nn::device::Precision::Bf16;
    let (detector, head) = ("d.safetensors".into(), "h.safetensors".into());
    let trained = Trained { detector, head, images: vec![], precision };
    // The first stage takes 10 ms at best, each other one 2 ms.
    let of = |first: f64| Series { seconds: vec![first, 3.0 * first], peak_mib: None };
    let mut series = vec![of(0.002); NAMES.len()];
    series[0] = of(0.01);
    let stages = Stages { series, all: of(0.02), images: 4, candidates: 57.25, boxes: 8.5 };
    report.stages = Some((trained, stages));
    let page = report.page("results/page.csv").unwrap();
    for row in ["body|10.0 (20.0)|50 %", "refinement|2.00 (4.00)|10 %", "all|20.0 (40.0)|100 %"] {
        let expected: Vec<&str> = row.split('|').collect();
        assert!(cells(&page).contains(&expected), "{row}\n{page}");
    }
    let marker = "<!-- table: results/page_stages.csv\nby: ebm bench\nrows: stage\n";
    assert!(
        page.contains(marker) && page.contains("on 4 images") && page.contains("57.2 candidates"),
        "{page}"
    );
    let text = String::from_utf8(report.stages_csv().unwrap().unwrap()).unwrap();
    assert!(text.lines().count() == 8 && text.contains(",body,10.000000,20.000000,0.500000\n"), "{text}");
}

#[test]
fn numbers_keep_three_digits() {
    let cases = [
        (1234.5, "1234"),
        (99.96, "100"),
        (12.345, "12.3"),
        (9.996, "10.0"),
        (1.2345, "1.23"),
        (0.12345, "0.123"),
    ];
    for (value, expected) in cases {
        assert_eq!(number(value), expected);
    }
}
