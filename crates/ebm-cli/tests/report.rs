//! `ebm report`: a page of any run, also of a damaged one, which a browser shows without errors.

use crate::common::program::{refused, succeeds, text};

use std::fs;
use std::path::{Path, PathBuf};

use ebm_testing::browser::{chromium, dump_dom};
use ebm_testing::files;
use tempfile::TempDir;

fn report(args: &[&Path]) -> Vec<PathBuf> {
    [&[Path::new("report")], args].concat().into_iter().map(Path::to_owned).collect()
}

/// The page of the runs, which must come about.
fn page(dir: &TempDir, runs: &[&Path]) -> (PathBuf, String) {
    let out = dir.path().join("page.html");
    succeeds(&report(&[&[Path::new("--out"), &out], runs].concat()));
    let page = fs::read_to_string(&out).unwrap();
    (out, page)
}

/// A folder with these files.
fn folder(dir: &TempDir, name: &str, files: &[[&str; 2]]) -> PathBuf {
    let folder = dir.path().join(name);
    for [file, text] in files {
        files::write(&folder, file, text);
    }
    folder
}

fn losses(losses: &[f64]) -> String {
    let line = |(step, loss): (usize, &f64)| {
        format!(
            "{{\"step\":{step},\"loss\":{loss},\"grad_norm\":1.5,\"scalars\":{{\"learning_rate\":0.01}}}}\n"
        )
    };
    losses.iter().enumerate().map(line).collect()
}

/// A name that would run where it is not escaped.
const HOSTILE: &str = "<img src=x onerror=alert(1)>";

/// Two runs of a training, with all that such a run leaves, and hostile names.
fn pair(dir: &TempDir) -> [PathBuf; 2] {
    let run = |name: &str, rate: &str, values: &[f64]| {
        let config = format!("rate = {rate}\n[classes]\n\"{HOSTILE}\" = \"</script><b>\"\n");
        let report = format!(
            "# Made of {HOSTILE}\n\n| method | AP |\n|---|--:|\n| ebm | 46.1 ± 0.2 |\n| l2 | 9.5 |\n"
        );
        let csv = format!("method,seed,rmse\n{HOSTILE},0,0.5\n{HOSTILE},1,0.7\nl2,0,\n");
        let metrics = losses(values);
        folder(
            dir,
            name,
            &[
                ["config.toml", &config],
                ["environment.json", "{\"git_commit\":null,\"machine\":{\"cpu\":\"x\"}}"],
                ["metrics.jsonl", &metrics],
                ["validation.jsonl", "{\"step\":2,\"value\":0.62517}\n{\"step\":3,\"value\":0.5}\n"],
                ["report.md", &report],
                ["results.csv", &csv],
                [
                    "results.json",
                    "{\"command\":\"reproduce toy\",\"rows\":[{\"method\":\"ebm\",\"ap\":0.46137}]}",
                ],
                ["figure.svg", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'></svg>"],
            ],
        )
    };
    [run("a", "0.1", &[3.25, 2.125, 1.0625]), run("b", "0.25", &[3.5, 2.5, 1.75])]
}

#[test]
fn a_page_holds_what_the_runs_hold() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = pair(&dir);
    let (_, text) = page(&dir, &[&a, &b]);
    for part in [
        "data-value=\"1.0625\"",
        "data-value=\"0.62517\"",
        "data-value=\"0.46137\"",
        "0.60 ± 0.14",
        "46.1 ± 0.2",
    ] {
        assert!(text.contains(part), "{part} is missing");
    }
    let order =
        ["id=\"curves\"", "0.60 ± 0.14", "data:image/svg+xml", "id=\"differences\"", "id=\"settings\""];
    let places = order.map(|part| text.find(part).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    let differences = &text[places[3]..places[4]];
    assert!(
        differences.contains("<details><summary>settings, 1 of 2 that all have</summary>"),
        "{differences}"
    );
    assert!(differences.contains("<td>rate</td><td>0.1</td><td>0.25</td>"), "{differences}");
    assert!(!differences.contains("onerror"), "what agrees does not differ: {differences}");
    assert!(text.contains("data:image/svg+xml;base64,"));
    assert!(!text.contains("<img src=x") && !text.contains("</script><b>"));
    assert!(text.contains("&lt;img src=x onerror=alert(1)&gt;"));
    // The name of SVG's elements is no address that is asked for.
    let others = text.replace("http://www.w3.org/2000/svg", "");
    assert!(!others.contains("http://") && !others.contains("https://"));
}

#[test]
fn a_reproduction_compares_its_trainings_and_shows_no_path() {
    let dir = tempfile::tempdir().unwrap();
    let training =
        |method: &str| format!("[method]\nkind = \"{method}\"\n{method}_only = 1\n[training]\nsteps = 5\n");
    let [ebm, l2] = ["ebm", "l2"].map(training);
    let files = [
        ["config.toml", "seeds = [0, 1]\n[[methods]]\nkey = \"ebm\"\n"],
        ["ebm-0/config.toml", &ebm],
        ["l2-0/config.toml", &l2],
        ["ebm-0/environment.json", "{"],
        ["results.csv", "method,rmse\nebm,0.5\n"],
        ["figure.png", "no picture"],
    ];
    let run = folder(&dir, "study", &files);
    let (_, text) = page(&dir, &[&run]);
    let [from, to] = ["id=\"differences\"", "id=\"settings\""].map(|id| text.find(id).unwrap());
    let differences = &text[from..to];
    assert!(differences.contains("<td>method.kind</td><td>ebm</td><td>l2</td>"), "{differences}");
    assert!(
        differences.contains("settings, 1 of 2 that all have") && !differences.contains("–"),
        "{differences}"
    );
    assert!(text.find("results.csv").unwrap() < from);
    for path in [dir.path().to_owned(), dir.path().canonicalize().unwrap()] {
        assert!(!text.contains(&*path.to_string_lossy()), "a path of this machine");
    }
    let same = folder(&dir, "other/study", &files);
    let (_, text) = page(&dir, &[&run, &same]);
    assert!(
        text.contains("<td>other/study</td>") && !text.contains(&*dir.path().to_string_lossy()),
        "{text}"
    );
}

#[test]
fn what_a_killed_or_an_old_training_left_is_shown_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let torn = losses(&[3.25, 2.125]) + "{\"step\":2,\"lo";
    let torn = folder(&dir, "torn", &[["metrics.jsonl", &torn], ["config.toml", "rate = "]]);
    let lines = "{\"step\":0,\"loss\":null,\"grad_norm\":null,\"skipped\":true}\n\
                 {\"step\":1,\"loss\":NaN}\n{\"step\":2,\"loss\":0.5,\"grad_norm\":1}\n";
    let nan =
        folder(&dir, "nan", &[["inner/metrics.jsonl", lines], ["results.json", "{"], ["metrics.jsonl", ""]]);
    fs::write(nan.join("figure.png"), b"no picture").unwrap();
    let (_, text) = page(&dir, &[&torn, &nan]);
    for part in [
        "torn: metrics.jsonl: 1 of its 3 lines are no records and left out, the first is line 3",
        "torn: config.toml is left out: ",
        "nan/inner: metrics.jsonl: 1 of its 3 lines are no records",
        "nan/inner: loss: 1 of 2 values are not finite",
        "nan/inner: 1 updates were skipped",
        "nan/inner: there is no config.toml",
        "nan: it holds the log of a training, and no step",
        "nan: results.json is left out: ",
        "nan: figure.png: ",
        "data-value=\"2.125\"",
    ] {
        assert!(text.contains(part), "{part} is missing");
    }
}

#[test]
fn a_folder_that_is_no_run_is_refused_and_so_is_a_file_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let empty = folder(&dir, "empty", &[["notes.txt", "mine"]]);
    let out = dir.path().join("page.html");
    for (path, said) in [(&empty, "is no run"), (&dir.path().join("absent"), "there is no such folder")] {
        refused(&report(&[path, Path::new("--out"), &out]), &[said, text(path)]);
        assert!(!out.exists());
    }
    let run = folder(&dir, "run", &[["metrics.jsonl", &losses(&[1.0])]]);
    fs::write(&out, "<p>mine</p>").unwrap();
    refused(&report(&[&run, Path::new("--out"), &out]), &["is no report", "--force"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "<p>mine</p>");
    for force in ["--force", "--out"] {
        // The second time it is a report, which needs no force.
        let args: Vec<&Path> = [&run, Path::new("--out"), &*out]
            .into_iter()
            .chain((force == "--force").then_some(Path::new(force)))
            .collect();
        succeeds(&report(&args));
        assert!(fs::read_to_string(&out).unwrap().contains("data-value=\"1\""));
    }
}

#[test]
fn a_million_steps_fit_into_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::with_capacity(100 << 20);
    for step in 0..1_000_000_u32 {
        // Something that no shorter form of numbers hides.
        let loss = 2.0 + f64::from(step.wrapping_mul(2_654_435_761) >> 8) / f64::from(1 << 24);
        let loss = if step == 123_456 { 987.5 } else { loss };
        text += &format!(
            "{{\"step\":{step},\"loss\":{loss},\"grad_norm\":{},\"scalars\":{{\"learning_rate\":0.01}}}}\n",
            loss / 3.0
        );
    }
    let run = folder(&dir, "long", &[["metrics.jsonl", &text]]);
    let (_, page) = page(&dir, &[&run]);
    assert!(page.len() < 20_000_000, "{}", page.len());
    assert!(
        page.contains("data-value=\"987.5\"")
            && page.contains("data-value=\"123456\"")
            && page.contains("987.5,")
    );
    assert!(page.contains("its curves have more steps than the page holds"));
}

/// A log whose line never ends, and one of very many quantities.
#[test]
fn a_log_that_no_training_writes_makes_no_large_page() {
    let dir = tempfile::tempdir().unwrap();
    let endless = folder(&dir, "endless", &[["metrics.jsonl", &losses(&[3.25])]]);
    let file = fs::File::options().write(true).open(endless.join("metrics.jsonl")).unwrap();
    file.set_len(16 << 30).unwrap();
    let scalars = (0..50_000).map(|k| format!("\"quantity {k}\":1")).collect::<Vec<_>>().join(",");
    let line = format!("{{\"step\":0,\"loss\":2.5,\"grad_norm\":1.5,\"scalars\":{{{scalars}}}}}\n");
    let wide = ["a", "b", "c", "d", "e", "f"].map(|name| folder(&dir, name, &[["metrics.jsonl", &line]]));
    let runs: Vec<&Path> = wide.iter().chain([&endless]).map(PathBuf::as_path).collect();
    let (_, page) = page(&dir, &runs);
    assert!(page.len() < 20_000_000, "{}", page.len());
    for part in [
        "endless: metrics.jsonl: it cannot be read: line 2 has 1048576 bytes or more; remove it",
        "data-value=\"3.25\"",
        "49002 values are left out: they are of more than 1000 quantities",
        "as a page has at most 5000",
        "data-value=\"2.5\"",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
}

#[test]
fn a_browser_shows_the_numbers_of_the_files() {
    let Some(chromium) = chromium() else { return };
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = pair(&dir);
    let (path, _) = page(&dir, &[&a, &b]);
    let dom = dump_dom(&chromium, &path, &dir.path().join("profile"));
    assert!(dom.contains("data-ready=\"true\""), "the scripts did not run to their end: {dom}");
    let root = &dom[dom.find("<html").unwrap()..];
    let root = &root[..root.find('>').unwrap()];
    assert!(!root.contains("data-errors"), "{root}");
    // The curves that are drawn, out of the paths; loss, validation, gradient norm, learning rate of both runs.
    assert_eq!(dom.matches("class=\"curve series-0\"").count(), 4 + 1, "a curve a chart, and the legend");
    assert_eq!(dom.matches("class=\"curve series-1\"").count(), 4 + 1);
    assert!(dom.contains("data-points=\"6\""), "three steps of each run");
    for (index, last) in [["1.0625", "3.25"], ["1.75", "3.5"]].iter().enumerate() {
        let name = ["a", "b"][index];
        let row = format!("<tr><td>{name}</td><td class=\"number\" data-value=\"3\"");
        let row = dom.find(&row).unwrap_or_else(|| panic!("no row of {name}"));
        let row = &dom[row..row + dom[row..].find("</tr>").unwrap()];
        for value in last {
            assert!(row.contains(&format!("data-value=\"{value}\" title=\"{value}\">")), "{row}");
        }
    }
    // The script made columns of numbers of the report's table, and buttons of its header.
    assert!(dom.contains("<td class=\"number\">46.1 ± 0.2</td>"));
    assert!(dom.contains("title=\"Sort by this column\">AP</button>"));
    assert!(!dom.contains("<img src=\"x\""));
}
