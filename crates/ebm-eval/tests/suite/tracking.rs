//! Success and precision of trackers: closed forms, the quirks of the conventions, folders of results, and
//! published results of two trackers on sequences of OTB-100 (golden/make_otb_golden.py).

use std::fs;
use std::path::Path;

use ebm_data::sequences::{Frames, Rect, Sequence, read_boxes};
use ebm_eval::tracking::*;
use ebm_testing::files::write;
use ebm_testing::fixture;
use proptest::prelude::*;

const NAN: Rect = [f64::NAN; 4];
const FAR: Rect = [900., 900., 10., 10.];

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

fn score(annotation: &[Rect], prediction: &[Rect], convention: &Convention) -> SequenceScores {
    score_sequence(&TrackingGroundTruth::new("a", annotation), prediction, convention).unwrap()
}

/// Returns boxes with these overlaps with [1, 1, 10, 10].
fn with_overlaps(overlaps: &[f64]) -> Vec<Rect> {
    overlaps.iter().map(|&overlap| if overlap > 0.0 { [1., 1., 10. * overlap, 10.] } else { FAR }).collect()
}

#[test]
fn success_in_closed_form() {
    let annotation = [[1., 1., 10., 10.]; 5];
    let scores = score(&annotation, &with_overlaps(&[1., 0.8, 0.5, 0.3, 0.]), &Convention::pytracking());
    close(scores.figures.auc, 5200.0 / 105.0);
    assert_eq!(
        (scores.figures.op50, scores.figures.op75, scores.figures.curve[10], scores.figures.curve[15]),
        (40.0, 40.0, 40.0, 40.0)
    );
    close(scores.figures.average_overlap, 52.0);
    // Centres off by 0, 1, 2.5 and 3.5 pixels, of a box ten wide; the last is far.
    assert_eq!((scores.figures.precision, scores.figures.norm_precision), (80.0, 40.0));
    let shares = [
        scores.figures.precision_curve[0],
        scores.figures.precision_curve[1],
        scores.figures.precision_curve[3],
    ];
    assert_eq!(shares, [20.0, 40.0, 60.0]);
}

proptest! {
    #[test]
    fn the_perfect_tracker_reaches_the_maximum(
        annotation in proptest::collection::vec([1.0..500.0, 1.0..500.0, 1.0..200.0, 1.0..200.0f64], 1..30)
    ) {
        let scores = score(&annotation, &annotation, &Convention::pytracking());
        prop_assert!((scores.figures.auc - 100.0 * 20.0 / 21.0).abs() < 1e-9);
        prop_assert_eq!((scores.figures.op50, scores.figures.precision, scores.figures.norm_precision), (100.0, 100.0, 100.0));
    }
}

/// Returns precision and normalised precision for the second frame `second`, in which the tracker is far from every
/// box.
fn far_in(second: Rect, visible: Option<&[bool]>, convention: &Convention) -> (f64, f64) {
    let annotation = [[1., 1., 10., 10.], second];
    let truth = TrackingGroundTruth {
        visible: visible.map(Into::into),
        ..TrackingGroundTruth::new("a", &annotation[..])
    };
    let scores = score_sequence(&truth, &[annotation[0], FAR], convention).unwrap();
    assert_eq!(scores.figures.op50, 50.0, "an invalid frame is a failure in success");
    (scores.figures.precision, scores.figures.norm_precision)
}

#[test]
fn frames_without_a_box_count_as_the_toolkits_count_them() {
    let (plain, uav, lasot) =
        (Convention::pytracking(), Convention::pytracking_uav(), Convention::pytracking_lasot());
    for invalid in [NAN, [0., 0., 0., 0.], [0., 5., 10., 10.]] {
        assert_eq!(far_in(invalid, None, &plain), (50.0, 100.0));
        assert_eq!(far_in(invalid, None, &uav), (100.0, 100.0));
        assert_eq!(far_in(invalid, None, &lasot), (50.0, 100.0));
        assert_eq!(far_in(invalid, None, &Convention::otb()), (100.0, 100.0));
        assert_eq!(far_in(invalid, None, &Convention::got10k_otb()), (50.0, 50.0));
    }
    let (seen, unseen) = ([1., 1., 10., 10.], Some(&[true, false][..]));
    assert_eq!(far_in(seen, unseen, &plain), (50.0, 100.0));
    assert_eq!(far_in(seen, unseen, &lasot), (50.0, 50.0));
    assert_eq!(far_in(NAN, unseen, &lasot), (50.0, 50.0));
}

#[test]
fn invalid_frames_can_be_left_out() {
    let annotation = [[1., 1., 10., 10.], NAN, [1., 1., 10., 10.]];
    let prediction = with_overlaps(&[1., 1., 0.6]);
    let all = score(&annotation, &prediction, &Convention::pytracking());
    let valid = score(&annotation, &prediction, &Convention::pytracking().excluding_invalid_frames());
    assert_eq!((all.counted, valid.counted, valid.frames), (3, 2, 3));
    close(all.figures.op50, 200.0 / 3.0);
    assert_eq!(valid.figures.op50, 100.0);
}

#[test]
fn average_overlap_is_that_of_all_seen_frames_but_the_first() {
    let box_of = |frames| vec![[1., 1., 10., 10.]; frames];
    let (long, short) = (box_of(4), box_of(2));
    let seen = [true, true, false, true];
    let truth = TrackingGroundTruth {
        visible: Some(seen[..].into()),
        ..TrackingGroundTruth::new("long", long.as_slice())
    };
    let predictions = [with_overlaps(&[1., 0.8, 1., 0.6]), with_overlaps(&[1., 0.1])];
    let report = evaluate(
        [
            (truth, predictions[0].as_slice()),
            (TrackingGroundTruth::new("short", short.as_slice()), predictions[1].as_slice()),
        ],
        &Convention::got10k(),
    )
    .unwrap();
    assert_eq!((report.sequences, report.frames), (2, 3));
    close(report.figures.average_overlap, 50.0);
    close(report.figures.op50, 200.0 / 3.0);
    close(report.figures.op75, 100.0 / 3.0);
    assert_eq!(report.figures.curve.len(), 101);
}

#[test]
fn boxes_are_clipped_to_the_image_as_the_toolkit_clips() {
    let annotation = [[0., 0., 10., 10.], [90., 0., 10., 10.]];
    let clipped = TrackingGroundTruth {
        image_size: Some([100., 100.]),
        ..TrackingGroundTruth::new("a", &annotation[..])
    };
    let prediction = [annotation[0], [90., 0., 30., 10.]];
    let overlap = |truth: &TrackingGroundTruth<'_>| {
        score_sequence(truth, &prediction, &Convention::got10k()).unwrap().figures.average_overlap
    };
    close(overlap(&clipped), 100.0);
    close(overlap(&TrackingGroundTruth { image_size: None, ..clipped }), 100.0 / 3.0);
}

#[test]
fn sequences_count_alike_and_a_bad_one_is_listed() {
    let annotation = vec![[1., 1., 10., 10.]; 4];
    let good = with_overlaps(&[1., 0.6, 0.6, 0.6]);
    let bad = with_overlaps(&[1., 0., 0., 0.]);
    let foreign = vec![FAR; 4];
    let truth = |name| TrackingGroundTruth::new(name, annotation.as_slice());
    let all = [
        (truth("good"), good.as_slice()),
        (truth("bad"), bad.as_slice()),
        (truth("foreign"), foreign.as_slice()),
        (truth("good"), good.as_slice()),
    ];
    let report = evaluate(all, &Convention::pytracking()).unwrap();
    assert_eq!((report.sequences, report.figures.op50), (2, 62.5));
    assert_eq!(report.figures.curve[10], 62.5);
    close(report.figures.auc, report.figures.curve.iter().sum::<f64>() / 21.0);
    let failed: Vec<&str> = report.failed.iter().map(|failed| failed.name.as_str()).collect();
    assert_eq!(failed, ["foreign", "good"]);
    assert!(report.failed[0].reason.contains("another"), "{}", report.failed[0].reason);
    let none = evaluate([(truth("foreign"), foreign.as_slice())], &Convention::pytracking());
    assert!(matches!(none, Err(ebm_eval::Error::NoSequence(1, ..))));
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<TrackingReport>(&json).unwrap(), report);
}

#[test]
fn sequences_are_scored_with_what_they_know() {
    let sequence = Sequence {
        name: "a".to_owned(),
        frames: Frames::Listed(Vec::new()),
        boxes: vec![[1., 1., 10., 10.]; 4],
        visible: Some(vec![true, true, false, true]),
    };
    let prediction = with_overlaps(&[1., 0.6, 0.6, 0.4]);
    let all = [(TrackingGroundTruth::from(&sequence), prediction.as_slice())];
    let report = evaluate(all, &Convention::pytracking()).unwrap();
    assert_eq!((report.figures.op50, report.frames), (50.0, 4));
}

#[test]
fn runs_are_taken_together() {
    let annotation = vec![[1., 1., 10., 10.]; 2];
    let run = |overlap, also: bool| {
        let prediction = with_overlaps(&[1., overlap]);
        let mut all = vec![(TrackingGroundTruth::new("a", annotation.as_slice()), prediction.as_slice())];
        if also {
            all.push((TrackingGroundTruth::new("b", annotation.as_slice()), annotation.as_slice()));
        }
        evaluate(all, &Convention::pytracking()).unwrap()
    };
    let merged = merge(&[run(0.6, true), run(0.4, false), run(0.4, true)]).unwrap();
    assert_eq!((merged.runs, merged.sequences), (3, 1));
    close(merged.figures.op50, 200.0 / 3.0);
    close(merged.figures.curve[10], merged.figures.op50);
    assert_eq!(merged.failed[0].name, "b");
    let other = evaluate(
        [(TrackingGroundTruth::new("a", annotation.as_slice()), annotation.as_slice())],
        &Convention::otb(),
    );
    let mixed = merge(&[run(0.6, false), other.unwrap()]);
    assert!(matches!(mixed, Err(ebm_eval::Error::OtherConvention(2))));
    assert!(merge(&[]).is_err());
}

#[test]
fn a_folder_is_scored_without_the_results_that_can_not_be() {
    let dir = tempfile::tempdir().unwrap();
    let two = "1,1,10,10\n1,1,10,10\n";
    for name in ["Deer", "Human4", "Jogging.1", "absent", "empty", "foreign", "letters", "long", "short"] {
        write(dir.path(), &format!("annotations/{name}/groundtruth_rect.txt"), two);
    }
    write(dir.path(), "annotations/odd/groundtruth.txt", "1,1\n");
    write(dir.path(), "annotations/Skating2/groundtruth_rect.1.txt", two);
    let annotations = Annotations::read(&dir.path().join("annotations")).unwrap();
    assert_eq!((annotations.sequences.len(), annotations.failed.len()), (10, 1));

    for (file, text) in [
        ("deer.txt", "1\t1\t10\t10\n1\t1\t10\t10\n"),
        ("deer_time.txt", "0.1\n0.1\n"),
        ("human4-2.txt", "1 1 10 10\n1 1 10 10\n"),
        ("jogging-1.txt", two),
        ("skating2_1.txt", two),
        ("empty.txt", ""),
        ("foreign.txt", "500,1,10,10\n1,1,10,10\n"),
        ("letters.txt", "1,1,10,10\n1,a,10,10\n"),
        ("long.txt", "1,1,10,10\n1,1,10,10\n1,1,10,10\n"),
        ("short.txt", "1,1,10,10\n"),
        ("odd.txt", two),
        ("another.txt", two),
    ] {
        write(dir.path(), &format!("results/{file}"), text);
    }
    let results = dir.path().join("results");
    let report = one_run(&annotations, &results, &Convention::pytracking_lasot());
    let scored: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(scored, ["Deer", "Human4", "Jogging.1", "Skating2.1"]);
    close(report.figures.auc, 100.0 * 20.0 / 21.0);
    let expected = [
        ("odd", "groundtruth.txt"),
        ("absent", "no result file"),
        ("empty", "empty.txt: 0 boxes for 2 frames"),
        ("foreign", "foreign.txt: the first box"),
        ("letters", "letters.txt"),
        ("long", "long.txt: 3 boxes for 2 frames"),
        ("short", "short.txt: 1 boxes for 2 frames"),
    ];
    assert_eq!(report.failed.len(), expected.len());
    for (failed, (name, reason)) in report.failed.iter().zip(expected) {
        assert_eq!(failed.name, name);
        assert!(failed.reason.contains(reason), "{}", failed.reason);
    }
    assert!(report.failed[4].reason.contains("line 2"), "{}", report.failed[4].reason);
    assert_eq!(report.unmatched, [results.join("another.txt").display().to_string()]);
    // pytracking pads short results.
    let padded = one_run(&annotations, &results, &Convention::pytracking());
    assert_eq!(padded.rows.iter().find(|row| row.name == "short").unwrap().figures.op50, 50.0);
}

#[test]
fn what_is_written_is_read_back_by_its_format() {
    let dir = tempfile::tempdir().unwrap();
    let boxes = vec![[-0.75, 2.999, 30.123_456_7, 40.5], [1., 2., 3., 4.]];
    let cases = [
        (ResultFormat::Got10k, "Deer/Deer_002.txt", "-0.750000,2.999000,30.123457,40.500000\n"),
        (ResultFormat::TrackingNet, "Deer.txt", "-0.75,3.00,30.12,40.50\n"),
        (ResultFormat::Full, "Deer.txt", "-0.75,2.999,30.1234567,40.5\n"),
    ];
    for (format, file, first) in cases {
        let path = write_result(dir.path(), "Deer", &boxes, format, 2).unwrap();
        assert_eq!(path, dir.path().join(file));
        assert!(fs::read_to_string(&path).unwrap().starts_with(first), "{format:?}");
        assert_eq!(read_boxes(&path).unwrap()[1], boxes[1]);
    }
    let path = write_times(dir.path(), "Deer", &[&[0.5, 0.25], &[1., 2.]], ResultFormat::Got10k).unwrap();
    assert_eq!(path, dir.path().join("Deer/Deer_time.txt"));
    assert_eq!(fs::read_to_string(path).unwrap(), "0.50000000,1.00000000\n0.25000000,2.00000000\n");
    assert!(write_times(dir.path(), "Deer", &[&[0.5], &[]], ResultFormat::Got10k).is_err());
    let nan = write_result(dir.path(), "Deer", &[NAN], ResultFormat::Full, 1).unwrap_err();
    assert!(nan.to_string().contains("frame 1"), "{nan}");
}

#[test]
fn the_runs_of_got10k_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let annotation = vec![[1., 1., 10., 10.]; 3];
    let annotations = Annotations {
        sequences: vec![TrackingGroundTruth::new("GOT-10k_Val_000001", annotation.as_slice())],
        failed: Vec::new(),
    };
    for (run, overlap) in [(1, 0.6), (2, 0.7), (3, 0.8)] {
        let boxes = with_overlaps(&[1., overlap, overlap]);
        write_result(dir.path(), "GOT-10k_Val_000001", &boxes, ResultFormat::Got10k, run).unwrap();
    }
    write_times(dir.path(), "GOT-10k_Val_000001", &[&[0.1; 3][..]; 3], ResultFormat::Got10k).unwrap();
    let runs = evaluate_runs(&annotations, dir.path(), &Convention::got10k()).unwrap();
    let merged = merge(&runs).unwrap();
    assert_eq!(merged.runs, 3);
    close(merged.figures.average_overlap, 70.0);
}

/// Returns the report of the only run in `dir`.
fn one_run(annotations: &Annotations<'_>, dir: &Path, convention: &Convention) -> TrackingReport {
    let [run] =
        <[TrackingReport; 1]>::try_from(evaluate_runs(annotations, dir, convention).unwrap()).unwrap();
    run
}

/// Returns a tracker's published boxes of the fixtures' sequences.
fn published(tracker: &str, convention: &Convention) -> TrackingReport {
    let annotations = Annotations::read(&fixture("otb/annotations")).unwrap();
    one_run(&annotations, &fixture("otb/results").join(tracker), convention)
}

#[test]
fn all_sequences_of_otb100_are_known_by_their_published_names() {
    let names = fs::read_to_string(fixture("otb/names.csv")).unwrap();
    let rows: Vec<Vec<&str>> = names.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let dir = tempfile::tempdir().unwrap();
    for row in &rows {
        let boxes = "5,6,10,20\n".repeat(row[1].parse().unwrap());
        write(dir.path(), &format!("annotations/{}/groundtruth_rect.txt", row[0]), &boxes);
        write(dir.path(), &format!("ATOM/{}", row[2]), &boxes);
        write(dir.path(), &format!("SiamFC/{}", row[3]), &boxes);
    }
    let annotations = Annotations::otb100(&dir.path().join("annotations")).unwrap();
    for tracker in ["ATOM", "SiamFC"] {
        let report = one_run(&annotations, &dir.path().join(tracker), &Convention::pytracking());
        assert_eq!((report.sequences, &report.failed[..], &report.unmatched[..]), (100, &[][..], &[][..]));
        close(report.figures.auc, 100.0 * 20.0 / 21.0);
    }
}

/// The conventions differ on the same boxes: some annotations touch the left or upper border with x or y
/// of 0 or below, which makes these frames invalid for all but the GOT-10k toolkit.
#[test]
fn every_convention_agrees_with_arrays() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../golden/otb_golden.json")).unwrap();
    let conventions = [
        ("pytracking", Convention::pytracking()),
        ("otb", Convention::otb()),
        ("pytracking, without invalid frames", Convention::pytracking().excluding_invalid_frames()),
        ("got10k_otb", Convention::got10k_otb()),
    ];
    for tracker in ["ATOM", "SiamFC"] {
        for (name, convention) in &conventions {
            let report = published(tracker, convention);
            assert_eq!((report.sequences, report.failed.len(), report.unmatched.len()), (7, 0, 0));
            let TrackingFigures { auc, op50, op75, precision, norm_precision, .. } = report.figures;
            let expected: Vec<f64> = serde_json::from_value(golden[tracker][*name].clone()).unwrap();
            for (found, expected) in [auc, op50, op75, precision, norm_precision].into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{tracker}, {name}: {found} is not {expected}");
            }
        }
    }
}
