//! Whatever is generated is whole on disk, and the same every time, or absent.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use ebm_base::Key;
use ebm_data::{Error, Result};
use ebm_synth::faces::generate_ages;
use ebm_synth::scenes::{self, SceneConfig};
use ebm_synth::videos::{self, VideoConfig};
use ebm_testing::files::below;

/// Makes so many samples of a seed in a directory; `noisy` samples are of another configuration.
type Generate = fn(dir: &Path, count: usize, seed: u64, noisy: bool) -> Result<()>;

/// What there is, with the name of its manifest.
const ALL: [(&str, Generate); 3] = [("faces", faces), ("scenes", scenes), ("videos", videos)];

fn faces(dir: &Path, count: usize, seed: u64, noisy: bool) -> Result<()> {
    generate_ages(dir, if noisy { 48 } else { 32 }, count, Key::new(seed)).map(drop)
}

fn scenes(dir: &Path, count: usize, seed: u64, noisy: bool) -> Result<()> {
    let config = SceneConfig { width: 96, height: 64, size: 12.0..=30.0, ..SceneConfig::default() };
    let config = if noisy { SceneConfig { noise: 1.0, ..config } } else { config };
    scenes::generate(dir, &config, count, Key::new(seed)).map(drop)
}

fn videos(dir: &Path, count: usize, seed: u64, noisy: bool) -> Result<()> {
    let config =
        VideoConfig { width: 80, height: 64, frames: 4, size: 10.0..=20.0, ..VideoConfig::default() };
    let config = if noisy { VideoConfig { noise: 1.0, ..config } } else { config };
    videos::generate(dir, &config, count, Key::new(seed)).map(drop)
}

fn is_image(path: &str) -> bool {
    path.ends_with(".jpg") || path.ends_with(".png")
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn bytes_depend_neither_on_count_nor_on_threads() {
    for (kind, generate) in ALL {
        let temp = tempfile::tempdir().unwrap();
        let make = |count: usize, threads: usize| {
            let dir = temp.path().join(format!("{count} with {threads}"));
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| generate(&dir, count, 9, false)).unwrap();
            below(&dir)
        };
        let (one, four, fewer) = (make(9, 1), make(9, 4), make(4, 2));
        assert!(one == four, "{kind}");
        let mut images = fewer.iter().filter(|(path, _)| is_image(path)).peekable();
        assert!(images.peek().is_some() && images.all(|(path, bytes)| one[path] == *bytes), "{kind}");
    }
}

#[test]
fn what_is_whole_is_reused_and_anything_else_is_refused() {
    for (kind, generate) in ALL {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("deep/set");
        generate(&dir, 3, 1, false).unwrap();
        let manifest = dir.join(format!("{kind}.json"));
        let written = modified(&manifest);
        generate(&dir, 3, 1, false).unwrap();
        assert_eq!(modified(&manifest), written, "{kind}");

        let refused = |count, seed, noisy, part: &str| match generate(&dir, count, seed, noisy) {
            Err(Error::Argument { name: "dir", detail }) => {
                assert!(detail.contains(part), "{kind}: {detail}")
            }
            other => panic!("{kind}: {other:?}"),
        };
        refused(4, 1, false, "another");
        refused(3, 2, false, "another");
        refused(3, 1, true, "another");
        let image = dir.join(below(&dir).into_keys().find(|path| is_image(path)).unwrap());
        let bytes = fs::read(&image).unwrap();
        fs::write(&image, &bytes[..bytes.len() / 2]).unwrap();
        refused(3, 1, false, "cut short");
        fs::remove_file(&image).unwrap();
        refused(3, 1, false, "missing");
        fs::remove_file(&manifest).unwrap();
        refused(3, 1, false, &format!("no generated {kind}"));
        // Refusals leave nothing beside the directory.
        assert_eq!(fs::read_dir(temp.path().join("deep")).unwrap().count(), 1, "{kind}");
    }
}

#[test]
fn an_empty_directory_is_filled_and_a_killed_run_is_no_obstacle() {
    for (kind, generate) in ALL {
        let temp = tempfile::tempdir().unwrap();
        let set = temp.path().join("set");
        fs::create_dir(&set).unwrap();
        fs::create_dir_all(temp.path().join(".set.partial/images")).unwrap();
        fs::write(temp.path().join(".set.lock"), "4194305").unwrap();
        generate(&set, 2, 1, false).unwrap();
        assert!(below(&set).keys().filter(|path| is_image(path)).count() >= 2, "{kind}");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1, "{kind}");
    }
}

/// What another process is making, in this container or another, stays, and is waited for.
#[test]
fn of_several_who_make_the_same_set_one_does() {
    for (kind, generate) in ALL {
        let temp = tempfile::tempdir().unwrap();
        let (set, alone) = (temp.path().join("set"), temp.path().join("alone"));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| generate(&set, 3, 1, false))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        generate(&alone, 3, 1, false).unwrap();
        assert!(below(&set) == below(&alone), "{kind}");
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 2, "{kind}");
    }
}

#[test]
fn a_place_that_can_not_be_written_is_an_error_and_stays_as_it_is() {
    for (kind, generate) in ALL {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("file");
        fs::write(&file, b"in the way").unwrap();
        for dir in [file.join("set"), file.clone()] {
            let error = generate(&dir, 2, 1, false).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{kind}: {error}");
        }
        assert_eq!(
            (fs::read_dir(temp.path()).unwrap().count(), fs::read(&file).unwrap()),
            (1, b"in the way".to_vec())
        );
    }
}
