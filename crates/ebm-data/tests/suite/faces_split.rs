//! Splits: drawn, written, read and applied.

use std::collections::BTreeSet;

use ebm_data::Error;
use ebm_data::faces::split::{Split, folder_of};
use ebm_data::faces::{Face, Faces, Pixels};
use ebm_data::quarantine::{Defect, DefectCode};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n:05}.jpg")).collect()
}

fn faces(names: &[&str]) -> Faces {
    let face = |name: &&str| Face {
        name: (*name).to_owned(),
        pixels: Pixels::File(name.into()),
        target: vec![name.len() as f32],
    };
    Faces { faces: names.iter().map(face).collect(), ..Faces::default() }
}

#[test]
fn a_draw_is_a_partition_that_depends_on_seed_and_names_alone() {
    let names = names(13_147);
    let draw = |names: &[String], seed| {
        Split::whole("train", names, seed).unwrap().draw("train", "validation", 1_644).unwrap()
    };
    let split = draw(&names, 1);
    let part = |part| split.part(part).unwrap();
    assert_eq!((part("train").len(), part("validation").len(), split.part("test")), (11_503, 1_644, None));
    let both: BTreeSet<_> = part("train").iter().chain(part("validation")).collect();
    assert_eq!(both, names.iter().collect());
    let mut reversed = names.clone();
    reversed.reverse();
    assert_eq!(draw(&reversed, 1), split);
    assert_ne!(draw(&names, 2), split);
    // A fair draw takes about half of its names from the first half: 822 ± 19.
    let first = part("validation").iter().filter(|name| **name < names[13_147 / 2]).count();
    assert!((740..900).contains(&first), "{first}");
}

#[test]
fn the_draw_is_pinned() {
    // Published results name a seed: a change of these names is a breaking change. They are from
    // crates/ebm-core/tests/golden/streams.py.
    let split = Split::whole("train", &names(20), 0).unwrap().draw("train", "validation", 4).unwrap();
    assert_eq!(split.part("validation").unwrap(), PINNED);
}

const PINNED: [&str; 4] = ["00001.jpg", "00002.jpg", "00003.jpg", "00006.jpg"];

#[test]
fn recordings_stay_together() {
    // Protocol 2 of BIWI: 16 of 24 recordings train, 8 test; then single images for validation.
    let names: Vec<_> = (1..=24).flat_map(|r| (0..50).map(move |n| format!("{r:02}/frame_{n:05}"))).collect();
    let split = Split::whole("train", &names, 5).unwrap();
    let split = split.draw_groups("train", "test", 8, folder_of).unwrap();
    let split = split.draw("train", "validation", 101).unwrap();
    let part = |part| split.part(part).unwrap();
    let recordings =
        |part| split.part(part).unwrap().iter().map(|name| folder_of(name)).collect::<BTreeSet<_>>();
    assert_eq!([part("train").len(), part("validation").len(), part("test").len()], [699, 101, 400]);
    assert_eq!((recordings("test").len(), recordings("train").len()), (8, 16));
    assert!(recordings("test").is_disjoint(&recordings("train")));
    assert!(recordings("validation").is_subset(&recordings("train")));
    assert_eq!(folder_of("frame"), "");
}

#[test]
fn impossible_draws_are_errors() {
    let split = || Split::whole("train", &names(3), 0).unwrap();
    let cases = [
        (split().draw("train", "train", 1), "drawn already"),
        (split().draw("all", "validation", 1), "no part \"all\", only [\"train\"]"),
        (split().draw("train", "validation", 4), "4 cannot be drawn from the 3"),
        (split().draw_groups("train", "validation", 2, |_| ""), "2 cannot be drawn from the 1"),
        (Split::whole("train", &["a", "b", "a"], 0), "\"a\" occurs twice"),
    ];
    for (outcome, said) in cases {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Data(..)) && error.to_string().contains(said), "{said}: {error}");
    }
    assert_eq!(split().draw("train", "validation", 3).unwrap().part("train").unwrap().len(), 0);
    assert_eq!(split().draw("train", "validation", 0).unwrap().part("train").unwrap().len(), 3);
}

#[test]
fn a_split_is_written_with_its_seed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("splits/age.json");
    let split = Split::whole("train", &names(9), u64::MAX).unwrap().draw("train", "validation", 4).unwrap();
    split.write(&path).unwrap();
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((&written["version"], &written["seed"]), (&1.into(), &u64::MAX.into()));
    for part in ["train", "validation"] {
        assert_eq!(written["parts"][part], serde_json::json!(split.part(part).unwrap()));
    }
}

#[test]
fn faces_are_divided_by_name() {
    let split =
        Split::whole("train", &["d", "b", "c", "a"], 0).unwrap().draw("train", "validation", 1).unwrap();
    let mut all = faces(&["c", "a", "d", "b"]);
    let parts = split.apply(&all).unwrap();
    assert_eq!(parts.keys().collect::<Vec<_>>(), ["train", "validation"]);
    for (part, chosen) in &parts {
        let chosen: Vec<_> = chosen.faces.iter().map(|face| face.name.as_str()).collect();
        assert_eq!(chosen, split.part(part).unwrap());
    }
    all.faces.reverse();
    assert_eq!(split.apply(&all).unwrap(), parts);

    // A name in the quarantine is no mistake.
    let drawn = split.part("validation").unwrap()[0].clone();
    all.faces.retain(|face| face.name != drawn);
    let missing = split.apply(&all).unwrap_err().to_string();
    assert!(missing.contains(&format!("not among the faces: {drawn};")), "{missing}");
    let (file, detail) = ("f.csv".into(), String::new());
    all.quarantine.defects.push(Defect { file, sample: drawn, code: DefectCode::MissingFile, detail });
    let parts = split.apply(&all).unwrap();
    assert_eq!((parts["train"].faces.len(), parts["train"].quarantine.defects.len()), (3, 0));
    assert_eq!((parts["validation"].faces.len(), parts["validation"].quarantine.defects.len()), (0, 1));

    let error = |names: &[&str]| split.apply(&faces(names)).unwrap_err().to_string();
    assert!(error(&["a", "b", "c", "d", "x", "y"]).contains("in no part of the split: x, y;"));
    assert!(error(&["a", "b", "c", "d", "a"]).contains("same name: a;"));
    assert!(error(&["a", "b", "d"]).contains("not among the faces: c;"));
    let long: Vec<_> = ["a", "b", "c", "d"].into_iter().chain(["k", "l", "m", "n", "o", "p", "q"]).collect();
    assert!(error(&long).contains("k, l, m, n, o and 2 more"), "{}", error(&long));
}

#[test]
fn photographs_of_two_parts_are_found_by_their_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let part = |files: &[(&str, &[u8])]| {
        let face = |&(name, bytes): &(&str, &[u8])| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Face { name: name.to_owned(), pixels: Pixels::File(path), target: vec![1.0] }
        };
        Faces { faces: files.iter().map(face).collect(), ..Faces::default() }
    };
    let train = part(&[("a.jpg", b"one"), ("b.jpg", b"two")]);
    let validation = part(&[("c.jpg", b"three"), ("d.jpg", b"one"), ("e.jpg", b"onetwo")]);
    let names = |faces: Vec<&Face>| faces.iter().map(|face| face.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(validation.repeated_in(&train).unwrap()), ["d.jpg"]);
    assert!(train.repeated_in(&Faces::default()).unwrap().is_empty());
    // A file that is not there is nobody's.
    std::fs::remove_file(dir.path().join("b.jpg")).unwrap();
    std::fs::remove_file(dir.path().join("c.jpg")).unwrap();
    assert_eq!(names(validation.repeated_in(&train).unwrap()), ["d.jpg"]);
}
