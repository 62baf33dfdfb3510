//! `ebm predict detection` on what a user has: folders, patterns, files of one name, videos.

use crate::common::program::{DETECTOR, command, files_in, said, text, texts};
use crate::common::schema;

use std::path::PathBuf;
use std::process::Command;

use ebm_data::decode::read_image;
use ebm_data::encode::{write_jpeg, write_png};
use serde_json::Value;

/// A folder with generated scenes in `scenes`.
struct Place(tempfile::TempDir);

impl Place {
    fn new(scenes: usize) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let count = scenes.to_string();
        place.succeeds(&["data", "scenes", "--out", "scenes", "--count", &count]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.current_dir(self.0.path());
        command
    }

    #[track_caller]
    fn succeeds(&self, args: &[&str]) -> [String; 2] {
        texts(self.command(args).output().unwrap())
    }

    #[track_caller]
    fn predicts(&self, args: &[&str]) -> (Vec<Value>, String) {
        let predict = ["predict", "detection", "--detector", DETECTOR];
        let [printed, said] = self.succeeds(&[&predict[..], args].concat());
        (lines(&printed), said)
    }

    #[track_caller]
    fn refused(&self, args: &[&str], part: &str) {
        let predict = ["predict", "detection", "--detector", DETECTOR];
        let output = self.command(&[&predict[..], args].concat()).output().unwrap();
        let said = said(&output);
        assert!(!output.status.success() && said.contains(part), "{part:?} is not in {said}");
    }

    /// The first scenes as files of these names.
    fn copies(&self, names: &[&str]) {
        for (name, scene) in names.iter().zip(files_in(&self.path("scenes/images"))) {
            let image = read_image(&scene).unwrap();
            let write = |path| {
                if name.ends_with("jpg") { write_jpeg(path, &image, 95) } else { write_png(path, &image) }
            };
            write(&self.path(name)).unwrap();
        }
    }

    fn files(&self, folder: &str) -> Vec<String> {
        ebm_data::files::names_in(&self.path(folder)).unwrap()
    }
}

#[track_caller]
fn lines(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| schema::document(line.as_bytes(), "predict detection")).collect()
}

#[test]
fn patterns_and_files_of_one_name_have_their_own_lines_and_pictures() {
    let place = Place::new(3);
    std::fs::create_dir_all(place.path("a")).unwrap();
    std::fs::create_dir_all(place.path("b")).unwrap();
    place.copies(&["a/x.jpg", "b/x.jpg", "b/X.png"]);
    std::fs::write(place.path("b/notes.txt"), "").unwrap();
    let (found, said) = place.predicts(&["?/*", "a/x.jpg", "--min-score", "0.3", "--out", "out"]);
    assert!(found.iter().all(|line| line["score"].as_f64().unwrap() >= 0.3));
    let mut images: Vec<&str> = found.iter().map(|line| line["image"].as_str().unwrap()).collect();
    images.dedup();
    assert_eq!(images, ["a/x.jpg", "b/X.png", "b/x.jpg"]);
    assert_eq!(place.files("out"), ["a_x.jpg.png", "b_X.png.png", "b_x.jpg.png"]);
    let summary = format!("3 images, {} detections of --min-score 0.3 or more, ", found.len());
    assert!(said.contains(&summary) && said.trim_end().ends_with("; pictures in out"), "{said}");
    // A picture has a size at which sub-pixel moves show.
    assert!(read_image(&place.path("out/a_x.jpg.png")).unwrap().width >= 480);
    let (none, said) = place.predicts(&["b/X.png", "--min-score", "1.1"]);
    assert!(
        none.is_empty()
            && said.contains("b/X.png: no detection of --min-score 1.1 or more; the best score is ")
    );
    assert!(said.contains("1 image, 0 detections of --min-score 1.1 or more, "), "{said}");

    std::fs::write(place.path("b/broken.jpg"), "no image").unwrap();
    let broken = ["predict", "detection", "--detector", DETECTOR, "b", "--min-score", "0.3"];
    let output = place.command(&broken).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1 of 3 images cannot be read and were left out") && said.contains("b/broken.jpg"));
    let others = lines(&String::from_utf8(output.stdout).unwrap());
    let first = |line: &&Value| line["image"] == "b/X.png" || line["image"] == "b/x.jpg";
    assert!(
        !others.is_empty() && others.iter().all(|line| first(&line)) && output.status.code() == Some(3),
        "{said}"
    );

    place.refused(&["c/*.jpg"], "\"c/*.jpg\" matches no file");
    let before = std::fs::read(place.path("b/X.png")).unwrap();
    place.refused(&["b/X.png", "--out", "b"], "b/X.png is an input; choose another folder with --out");
    assert_eq!(std::fs::read(place.path("b/X.png")).unwrap(), before);
}

#[test]
fn the_help_says_what_boxes_are() {
    let place = Place(tempfile::tempdir().unwrap());
    let [long, _] = place.succeeds(&["predict", "detection", "--help"]);
    for part in
        ["bbox, bbox_before", "[left, top, width, height]", "The origin is the upper left corner", "(EXIF)"]
    {
        assert!(long.contains(part), "{part:?} is not in {long}");
    }
}

/// Densities of a branch that has hardly been trained.
#[test]
fn densities_of_few_samples_are_called_so() {
    let place = Place::new(2);
    let train = ["train", "branch", "--annotations", "scenes/annotations.json", "--images", "scenes/images"];
    let more = [
        "--detector",
        DETECTOR,
        "--method",
        "ebm",
        "--run",
        "run",
        "--steps",
        "2",
        "--step-factor",
        "0.0625",
    ];
    place.succeeds(&[&train[..], &more].concat());
    let head = ["--head", "run/ebm.safetensors", "--density", "--out", "out", "--min-score", "0.3"];
    place.copies(&["x.png"]);
    let predict = |samples: &str| place.predicts(&[&head[..], &["x.png", "--samples", samples]].concat()).0;
    for (samples, most) in [("64", 64.0), ("256", 256.0)] {
        let found = predict(samples);
        assert!(!found.is_empty());
        for line in &found {
            let count = line["effective_sample_size"].as_f64().unwrap();
            assert!((1.0..=most).contains(&count), "{line}");
            assert_eq!(line["reliable"], count >= 100.0, "{line}");
        }
        assert_eq!(
            place.files("out").len(),
            1 + found.iter().filter(|line| line["edges_90"].is_object()).count()
        );
    }
    // What is drawn says so: with 64 samples, no band is yellow.
    predict("64");
    let picture = read_image(&place.path("out/x.png")).unwrap();
    let plain = place.predicts(&["x.png", "--out", "plain", "--min-score", "0.3"]);
    assert!(!plain.0.is_empty() && picture != read_image(&place.path("plain/x.png")).unwrap());
}

/// Makes programs in place of ffprobe and ffmpeg, with two frames at 12.5 per second. Their videos are empty.
#[cfg(unix)]
fn stand_ins(place: &Place, frames: &[u8]) -> String {
    use std::os::unix::fs::PermissionsExt;
    let bin = place.path("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("frames.ppm"), frames).unwrap();
    let probe = r#"echo '{"streams": [{"avg_frame_rate": "25/2", "nb_frames": "2"}], "format": {}}'"#;
    let ffmpeg = r#"
for last; do :; done
case "$last" in -) cat "$(dirname "$0")/frames.ppm";; *) echo > "${last#file:}";; esac"#;
    for (name, script) in [("ffprobe", probe), ("ffmpeg", ffmpeg)] {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap())
}

#[cfg(unix)]
#[test]
fn frames_of_a_video_have_a_number_and_a_time() {
    let place = Place::new(2);
    place.copies(&["0.png", "1.png"]);
    let frame = |name: &str| {
        let image = read_image(&place.path(name)).unwrap();
        [format!("P6\n{} {}\n255\n", image.width, image.height).as_bytes(), &image.pixels].concat()
    };
    let path = stand_ins(&place, &[frame("0.png"), frame("1.png")].concat());
    std::fs::write(place.path("clip.mp4"), "").unwrap();
    let predict = ["predict", "detection", "--detector", DETECTOR, "--min-score", "0.3"];
    let run = |args: &[&str], path: &str| {
        place.command(&[&predict[..], args].concat()).env("PATH", path).output().unwrap()
    };
    let [printed, words] = texts(run(&["clip.mp4", "--out", "out"], &path));
    let found = lines(&printed);
    let at: Vec<(u64, f64)> =
        found.iter().map(|line| (line["frame"].as_u64().unwrap(), line["time"].as_f64().unwrap())).collect();
    assert!(
        at.iter().all(|&(frame, time)| (time - frame as f64 / 12.5).abs() < 1e-9) && at.contains(&(1, 0.08))
    );
    assert!(found.iter().all(|line| line["image"] == "clip.mp4"));
    assert_eq!(place.files("out"), ["clip", "clip.mp4"]);
    assert_eq!(place.files("out/clip"), ["000000.png", "000001.png"]);
    assert!(words.contains("2 images, "), "{words}");

    // An input is not overwritten by the video either.
    let output = run(&["clip.mp4", "--out", "."], &path);
    assert!(said(&output).contains("clip.mp4 is an input"));
    // What is cut off, is no video, or needs what is not there.
    let cut = frame("0.png");
    for (frames, part) in [(&cut[..cut.len() - 1], "it is cut off"), (&[], "not a video that ffmpeg reads")] {
        stand_ins(&place, frames);
        let output = run(&["clip.mp4"], &path);
        assert_eq!(output.status.code(), Some(3));
        assert!(said(&output).contains(part), "{output:?}");
    }
    let output = run(&["clip.mp4"], text(&place.path("scenes")));
    assert!(said(&output).contains("install ffmpeg"), "{output:?}");
}
