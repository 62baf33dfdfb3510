//! Comparison of the average precision of each category with pycocotools (golden/make_coco_tables_golden.py).

use ebm_eval::{GroundTruth, coco_tables, evaluate_coco_in_memory, read_results, read_results_for};
use serde_json::Value;

#[test]
fn agrees_with_pycocotools_by_category() {
    let golden: Value = serde_json::from_str(include_str!("../golden/coco_tables_golden.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let [annotations, results] = ["truth", "results"].map(|key| {
        let path = dir.path().join(format!("{key}.json"));
        std::fs::write(&path, golden[key].to_string()).unwrap();
        path
    });
    let truth = GroundTruth::read(&annotations).unwrap();
    let detections = read_results_for(&results, &truth).unwrap();
    assert_eq!(detections, read_results(&results).unwrap());
    let tables = coco_tables(&truth, &detections).unwrap();
    assert_eq!(tables.figures, evaluate_coco_in_memory(&truth, &detections).unwrap());

    let names: Vec<&str> = tables.categories.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["kite", "dog", "|pipe|", "zebra"]);
    let found = serde_json::to_value(&tables).unwrap();
    let (found, expected) =
        (found["categories"].as_array().unwrap(), golden["categories"].as_array().unwrap());
    assert_eq!([found.len(), expected.len()], [4, 4]);
    for (found, expected) in found.iter().zip(expected) {
        for (name, expected) in expected.as_object().unwrap() {
            match expected.as_f64() {
                Some(expected) => {
                    // pycocotools writes -1 if there is no figure.
                    let found = found[name].as_f64().unwrap_or(-1.0);
                    assert!((found - expected).abs() < 1e-9, "{name}: {found}, not {expected}");
                }
                None => assert_eq!(&found[name], expected),
            }
        }
    }
    // The twelve figures are means of the rows: over the three categories that have objects.
    let mean = tables.categories[..3].iter().map(|row| row.ap).sum::<f64>() / 3.0;
    assert!((mean - tables.figures.ap).abs() < 1e-12);
}

#[test]
fn a_category_without_a_name_is_called_by_its_id() {
    let golden: Value = serde_json::from_str(include_str!("../golden/coco_tables_golden.json")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("truth.json");
    let mut truth = golden["truth"].clone();
    truth["categories"][1].as_object_mut().unwrap().remove("name");
    std::fs::write(&path, truth.to_string()).unwrap();
    let truth = GroundTruth::read(&path).unwrap();
    let tables = coco_tables(&truth, &[]).unwrap();
    assert_eq!((tables.categories[1].id, tables.categories[1].name.as_str()), (6, "6"));
    assert_eq!([tables.categories[1].ap, tables.categories[3].ap], [0.0, -1.0]);
    assert_eq!(tables.figures, evaluate_coco_in_memory(&truth, &[]).unwrap());
}
