//! Discs with ages and poses.

use ebm_base::Key;
use ebm_data::faces::Pixels;
use ebm_data::faces::utkface::load;
use ebm_data::quarantine::Tolerance;
use ebm_synth::faces::{POSE_LIMITS, generate_ages, poses};

#[test]
fn ages_are_read_as_utkfaces() {
    let dir = tempfile::tempdir().unwrap();
    let ages = generate_ages(&dir.path().join("ages"), 32, 12, Key::new(1)).unwrap();
    let faces = load(&ages.images, &ages.split, None, &Tolerance::default()).unwrap().faces;
    assert_eq!(faces.len(), 12);
    for face in &faces {
        let named: f32 = face.name.rsplit('/').next().unwrap().split('_').next().unwrap().parse().unwrap();
        assert!(face.target == [named] && (21.0..=60.0).contains(&named), "{}: {:?}", face.name, face.target);
    }
}

#[test]
fn poses_are_within_their_limits_and_depend_on_their_index_alone() {
    let (few, many) = (poses(32, 3, Key::new(2)).unwrap(), poses(32, 8, Key::new(2)).unwrap());
    for (a, b) in few.iter().zip(&many) {
        let (Pixels::Memory(x), Pixels::Memory(y)) = (&a.pixels, &b.pixels) else { panic!("in memory") };
        assert!(a.target == b.target && x.pixels == y.pixels);
    }
    for face in &many {
        assert!(face.target.iter().zip(POSE_LIMITS).all(|(angle, limit)| angle.abs() <= limit));
    }
}

#[test]
fn sizes_and_counts_are_checked() {
    assert!(poses(8, 1, Key::new(0)).unwrap_err().to_string().contains("16..=1024"));
    assert!(poses(16, 0, Key::new(0)).unwrap_err().to_string().contains("count"));
}
