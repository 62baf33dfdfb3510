//! A user's folder in COCO's, Pascal VOC's and YOLO's form: what is recognised, where boxes are, and what
//! errors say.

use std::fs;
use std::path::Path;

use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::detection_folder::{DetectionFolder, Split};
use ebm_data::encode::{write_jpeg, write_png};
use ebm_data::quarantine::{Defect, DefectCode, Tolerance};
use ebm_data::{Error, Image};
use ebm_testing::files;
use serde_json::json;

/// Files of annotations, each with its image.
type Files = &'static [(&'static str, &'static str)];

/// A folder that is filled file by file.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn text(&self, name: &str, text: &str) -> &Self {
        files::write(self.path(), name, text);
        self
    }

    /// An image of 40 columns and 20 rows.
    fn image(&self, name: &str) -> &Self {
        let path = self.path().join(name);
        let image = Image::filled(40, 20, [9, 99, 200]).unwrap();
        if name.ends_with("png") { write_png(&path, &image) } else { write_jpeg(&path, &image, 90) }.unwrap();
        self
    }

    fn open(&self) -> DetectionFolder {
        DetectionFolder::open(self.path()).unwrap()
    }

    fn refusal(&self) -> String {
        DetectionFolder::open(self.path()).unwrap_err().to_string()
    }
}

fn options(purpose: Purpose) -> LoadOptions {
    LoadOptions { tolerance: Tolerance { max_bad_fraction: 1., report: None }, ..LoadOptions::new(purpose) }
}

fn load(folder: &DetectionFolder, split: Split) -> CocoDataset {
    folder.load(split, &options(Purpose::Eval)).unwrap()
}

fn names(dataset: &CocoDataset) -> Vec<&str> {
    assert!(dataset.categories.iter().zip(1..).all(|(category, label)| category.label == label));
    dataset.categories.iter().map(|category| category.name.as_str()).collect()
}

/// Files, labels and boxes.
fn objects(dataset: &CocoDataset) -> Vec<(String, usize, [f32; 4])> {
    let of_image = |image: &ebm_data::coco::CocoImage| {
        assert!(image.path.is_file() && (image.width, image.height) == (40, 20));
        let name = image.path.file_name().unwrap().to_string_lossy().into_owned();
        image.objects.iter().map(move |object| (name.clone(), object.label, object.bbox)).collect::<Vec<_>>()
    };
    dataset.images.iter().flat_map(of_image).collect()
}

/// The defects of the first split: file, sample, code and detail.
fn defects(folder: &Folder) -> Vec<Defect> {
    load(&folder.open(), Split::Train).quarantine.defects
}

fn coco_file(file_name: &str) -> String {
    json!({"images": [{"id": 5, "file_name": file_name, "width": 40, "height": 20}],
        "annotations": [{"id": 1, "image_id": 5, "category_id": 9, "bbox": [1, 2, 30, 4]}],
        "categories": [{"id": 9, "name": "ring"}, {"id": 2, "name": "disc"}]})
    .to_string()
}

fn voc_object(name: &str, corners: [&str; 4], more: &str) -> String {
    let [x0, y0, x1, y1] = corners;
    format!(
        "<object><name>{name}</name>{more}<bndbox><xmin>{x0}</xmin><ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax>\
         </bndbox></object>\n"
    )
}

fn voc_file(file_name: &str, objects: &str) -> String {
    format!(
        "<annotation>\n<filename>{file_name}</filename>\n<size><width>40</width><height>20</height><depth>3</depth></size>\n\
         {objects}</annotation>\n"
    )
}

#[test]
fn coco_is_found_in_its_usual_places() {
    let layouts: [(Files, &[Split]); 6] = [
        // (annotation file, image)
        (
            &[
                ("annotations/instances_train2017.json", "train2017/a.jpg"),
                ("annotations/instances_val2017.json", "val2017/a.jpg"),
            ],
            &[Split::Train, Split::Valid],
        ),
        (&[("train.json", "images/a.jpg")], &[Split::Train]),
        (
            &[("train.json", "train/a.jpg"), ("val.json", "val/a.jpg"), ("test.json", "test/a.jpg")],
            &Split::ALL,
        ),
        (
            &[
                ("train/_annotations.coco.json", "train/a.jpg"),
                ("valid/_annotations.coco.json", "valid/a.jpg"),
            ],
            &[Split::Train, Split::Valid],
        ),
        (&[("_annotations.coco.json", "a.jpg")], &[Split::Train]),
        (
            &[
                ("annotations/train.json", "images/train/a.jpg"),
                ("annotations/valid.json", "images/valid/a.jpg"),
            ],
            &[Split::Train, Split::Valid],
        ),
    ];
    for (files, splits) in layouts {
        let folder = Folder::new();
        for (annotations, image) in files {
            folder.text(annotations, &coco_file("a.jpg")).image(image);
        }
        folder.text("package.json", "{\"name\": \"no annotations\"}");
        let opened = folder.open();
        assert_eq!(opened.splits(), splits, "{files:?}");
        for (split, (_, image)) in splits.iter().zip(files) {
            let dataset = load(&opened, *split);
            assert_eq!(
                dataset.images[0].path.canonicalize().unwrap(),
                folder.path().join(image).canonicalize().unwrap()
            );
            assert_eq!(names(&dataset), ["disc", "ring"]);
            assert_eq!(objects(&dataset), [("a.jpg".to_owned(), 2, [1., 2., 31., 6.])]);
        }
    }
}

#[test]
fn of_several_coco_files_the_instances_are_read_or_none() {
    let folder = Folder::new();
    folder.text("annotations/instances_train.json", &coco_file("a.jpg")).image("train/a.jpg");
    folder.text("annotations/captions_train.json", &coco_file("a.jpg"));
    assert_eq!(load(&folder.open(), Split::Train).images.len(), 1);
    folder.text("instances_train.json", &coco_file("a.jpg"));
    let error = folder.refusal();
    assert!(error.contains("annotation files for train") && error.contains("captions_train.json"), "{error}");
}

#[test]
fn coco_without_its_images_says_where_to_put_them() {
    let folder = Folder::new();
    folder.text("train.json", &coco_file("a.jpg"));
    let error = folder.open().load(Split::Train, &options(Purpose::Eval)).unwrap_err().to_string();
    assert!(
        error.contains("a.jpg") && error.contains("put them beside the file, or into images/"),
        "{error}"
    );
}

/// VOC counts pixels from 1 and its corners are inside: of a width of 40 all is from 1 to 40, and the pixel
/// in the corner is from 1 to 1.
#[test]
fn voc_corners_become_half_open() {
    let folder = Folder::new();
    let text = [
        voc_object("mug", ["1", "1", "40", "20"], ""),
        voc_object("ball", ["1", "1", "1", "1"], "<pose>Left</pose><difficult>0</difficult>"),
        voc_object("mug", ["3", "5", "10", "12"], "<difficult>1</difficult>"),
        // Beyond the image by a pixel: clipped.
        voc_object(
            "ball",
            ["0", "2.5", "8.25", "21"],
            "<part><name>lid</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part>",
        ),
    ];
    folder.text("Annotations/x.xml", &voc_file("x.jpg", &text.concat())).image("JPEGImages/x.jpg");
    let opened = folder.open();
    assert_eq!(opened.splits(), [Split::Train]);
    let dataset = load(&opened, Split::Train);
    assert_eq!(names(&dataset), ["ball", "mug"]);
    let boxes =
        [(2, [0., 0., 40., 20.]), (1, [0., 0., 1., 1.]), (2, [2., 4., 10., 12.]), (1, [0., 1.5, 8.25, 20.])];
    assert_eq!(objects(&dataset), boxes.map(|(label, bbox)| ("x.jpg".to_owned(), label, bbox)));
    let difficult: Vec<bool> = dataset.images[0].objects.iter().map(|object| object.iscrowd).collect();
    assert_eq!(difficult, [false, false, true, false]);
    assert_eq!(dataset.images[0].objects[0].area, 800.);
    assert_eq!(dataset.quarantine.defects, []);
    // It is not trained on what is difficult.
    let train = opened.load(Split::Train, &options(Purpose::Train)).unwrap();
    assert_eq!(train.images[0].objects.len(), 3);
}

#[test]
fn voc_is_found_in_its_usual_places() {
    let mug = voc_object("mug", ["1", "1", "9", "9"], "");
    let layouts: [Files; 5] = [
        &[("Annotations/a.xml", "JPEGImages/a.jpg")],
        &[("annots/a.xml", "images/a.jpg")],
        &[("a.xml", "a.jpg")],
        &[("train/a.xml", "train/a.jpg"), ("valid/a.xml", "valid/a.jpg")],
        &[
            ("train/Annotations/a.xml", "train/JPEGImages/a.jpg"),
            ("val/Annotations/a.xml", "val/JPEGImages/a.jpg"),
        ],
    ];
    for files in layouts {
        let folder = Folder::new();
        for (xml, image) in files {
            // The name in the file is that of another machine.
            folder.text(xml, &voc_file("elsewhere.jpg", &mug)).image(image);
        }
        let opened = folder.open();
        assert_eq!(opened.splits().len(), files.len(), "{files:?}");
        for (split, (_, image)) in opened.splits().into_iter().zip(files) {
            let dataset = load(&opened, split);
            assert_eq!(dataset.images[0].path, folder.path().join(image));
            assert_eq!(objects(&dataset)[0].2, [0., 0., 9., 9.]);
        }
    }
}

#[test]
fn an_xml_file_is_of_the_image_of_its_own_name() {
    let folder = Folder::new();
    for name in ["a", "copy_of_a"] {
        folder.image(&format!("{name}.jpg"));
        folder.text(&format!("{name}.xml"), &voc_file("a.jpg", &voc_object("mug", ["1", "1", "9", "9"], "")));
    }
    // Only the name in the file leads to this one.
    folder.image("b-1.jpg").text("b.xml", &voc_file("b-1.jpg", &voc_object("mug", ["1", "1", "9", "9"], "")));
    let names: Vec<String> =
        objects(&load(&folder.open(), Split::Train)).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["a.jpg", "b-1.jpg", "copy_of_a.jpg"]);
}

#[test]
fn lists_of_voc_are_its_splits_and_classes_those_of_all() {
    let folder = Folder::new();
    for (name, class) in [("a", "zebra"), ("b", "ant"), ("c", "mule"), ("unlisted", "yak")] {
        let object = voc_object(class, ["1", "1", "9", "9"], "");
        folder.text(&format!("Annotations/{name}.xml"), &voc_file(&format!("{name}.png"), &object));
        folder.image(&format!("JPEGImages/{name}.png"));
    }
    folder.text("ImageSets/Main/train.txt", "a\n\nc\n").text("ImageSets/Main/val.txt", "b\ngone\n");
    folder.text("ImageSets/Main/trainval.txt", "a\nb\nc\n");
    let opened = folder.open();
    assert_eq!(opened.splits(), [Split::Train, Split::Valid]);
    let (train, valid) = (load(&opened, Split::Train), load(&opened, Split::Valid));
    assert_eq!((names(&train), names(&valid)), (vec!["ant", "mule", "zebra"], vec!["ant", "mule", "zebra"]));
    let labels = |dataset: &CocoDataset| {
        objects(dataset).into_iter().map(|(name, label, _)| (name, label)).collect::<Vec<_>>()
    };
    assert_eq!(labels(&train), [("a.png".to_owned(), 3), ("c.png".to_owned(), 2)]);
    assert_eq!(labels(&valid), [("b.png".to_owned(), 1)]);
    assert_eq!(valid.quarantine.defects[0].code, DefectCode::BadAnnotation);
    assert!(valid.quarantine.defects[0].detail.contains("Annotations/gone.xml"));
    let error = opened.load(Split::Test, &options(Purpose::Eval)).unwrap_err().to_string();
    assert!(error.contains("no split test; it has train, valid"), "{error}");
    folder.text("ImageSets/Main/test.txt", "../../etc/passwd");
    assert!(folder.refusal().contains("line 1"));
}

#[test]
fn defects_of_voc_have_file_line_and_remedy() {
    let folder = Folder::new();
    let good = voc_object("mug", ["1", "1", "9", "9"], "");
    let objects = [
        good.clone(),
        voc_object("mug", ["41", "1", "50", "9"], ""),
        voc_object("mug", ["9", "1", "1", "9"], ""),
        voc_object("mug", ["1", "one", "9", "9"], ""),
        voc_object("", ["1", "1", "9", "9"], ""),
        "<object><name>mug</name></object>\n".to_owned(),
    ];
    folder.text("Annotations/a.xml", &voc_file("a.jpg", &objects.concat())).image("JPEGImages/a.jpg");
    let found = defects(&folder);
    let expected = [
        (5, DefectCode::BadBox, "in 40x20"),
        (6, DefectCode::BadBox, "in 40x20"),
        (7, DefectCode::BadAnnotation, "ymin of the <bndbox> of \"mug\" is \"one\""),
        (8, DefectCode::BadAnnotation, "name its class"),
        (9, DefectCode::BadAnnotation, "xmin of the <bndbox> of \"mug\" is missing"),
    ];
    are(&found, &expected, "Annotations/a.xml");
}

/// Whether these are the defects: line, code and a part of what is said.
fn are(found: &[Defect], expected: &[(usize, DefectCode, &str)], file: &str) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (defect, (line, code, part)) in found.iter().zip(expected) {
        assert_eq!(defect.code, *code, "{defect}");
        let place = format!("{file}: line {line}: ");
        assert!(defect.detail.contains(&place) && defect.detail.contains(part), "{defect}");
    }
}

#[test]
fn defects_of_whole_images_of_voc() {
    let folder = Folder::new();
    let good = voc_object("mug", ["1", "1", "9", "9"], "");
    folder.text("a.xml", &voc_file("a.jpg", &good)).image("a.jpg");
    folder.text("b.xml", &voc_file("b.jpg", &good));
    folder.text("c.xml", "<annotation><object>").image("c.jpg");
    folder.text("d.xml", "<html></html>").image("d.jpg");
    // The size of the image stands in for one that is not told, if there is an image.
    let unsized_file = voc_file("e.jpg", &good).replace("<width>40</width>", "<width>0</width>");
    folder.text("e.xml", &unsized_file).image("e.jpg");
    folder.text("f.xml", &unsized_file.replace("e.jpg", "f.jpg")).text("f.jpg", "no image");
    let dataset = load(&folder.open(), Split::Train);
    assert_eq!(objects(&dataset).len(), 2);
    let codes: Vec<DefectCode> = dataset.quarantine.defects.iter().map(|defect| defect.code).collect();
    use DefectCode::*;
    assert_eq!(codes, [MissingFile, BadAnnotation, BadAnnotation, BadAnnotation]);
    let sizeless = &dataset.quarantine.defects[3];
    assert!(sizeless.detail.contains("<size>") && sizeless.detail.contains("f.xml: "), "{sizeless}");
    // Too many are an error with the first ones.
    let error = folder.open().load(Split::Train, &LoadOptions::new(Purpose::Train)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1 of its 6 images") && text.contains("b.xml: its image"), "{text}");
    folder.image("b.jpg");
    let error = folder.open().load(Split::Train, &LoadOptions::new(Purpose::Train)).unwrap_err();
    let Error::TooManyDefects { bad: 3, total: 6, .. } = error else { panic!("{error}") };
    let text = error.to_string();
    assert!(text.contains("c.xml") && text.contains("max_bad_fraction = 0.5"), "{text}");
}

const YAML: &str = "path: .\ntrain: images/train\nval: images/val\nnc: 2\nnames: ['mug', ball]\n";

/// A YOLO folder with one image in each split.
fn yolo(yaml: &str, labels: &str) -> Folder {
    let folder = Folder::new();
    folder.text("data.yaml", yaml).image("images/train/a.jpg").image("images/val/b.jpg");
    folder.text("labels/train/a.txt", labels).text("labels/val/b.txt", "0 0.5 0.5 1 1\n");
    folder
}

/// In an image of 40 × 20 the box with its centre at (0.25, 0.5), half as wide and a quarter as high, is from
/// 0 to 20 and from 7.5 to 12.5.
#[test]
fn yolo_fractions_become_pixels() {
    let folder = yolo(YAML, "1 0.25 0.5 0.5 0.25\n\n0 0.9 0.9 0.2 0.2\n");
    // An image without labels has no object.
    folder.image("images/train/empty.png");
    let opened = folder.open();
    assert_eq!(opened.splits(), [Split::Train, Split::Valid]);
    let (train, valid) = (load(&opened, Split::Train), load(&opened, Split::Valid));
    assert_eq!((names(&train), names(&valid)), (vec!["mug", "ball"], vec!["mug", "ball"]));
    let found = objects(&train);
    assert_eq!(found[0], ("a.jpg".to_owned(), 2, [0., 7.5, 20., 12.5]));
    assert_eq!((found[1].1, found[1].2.map(f32::round)), (1, [32., 16., 40., 20.]));
    assert_eq!((train.images.len(), objects(&valid)), (2, vec![("b.jpg".to_owned(), 1, [0., 0., 40., 20.])]));
    assert_eq!(opened.load(Split::Train, &options(Purpose::Train)).unwrap().images.len(), 1);
}

#[test]
fn defects_of_yolo_have_file_line_and_remedy() {
    let lines = [
        "1 0.25 0.5 0.5 0.25",
        "2 0.5 0.5 0.1 0.1",
        "0 20 10 5 5",
        "0 0.5 0.5 0 0.1",
        "0 0.5 0.5 0.1",
        "0 0.1 0.1 0.2 0.1 0.2 0.2",
        "mug 0.5 0.5 0.1 0.1",
        "0 0.5 x 0.1 0.1",
        "0 nan 0.5 0.1 0.1",
    ];
    let folder = yolo(YAML, &lines.join("\n"));
    let expected = [
        (2, DefectCode::UnknownCategory, "there are 2, from 0 on"),
        (3, DefectCode::BadBox, "in 40x20"),
        (4, DefectCode::BadBox, "in 40x20"),
        (5, DefectCode::BadAnnotation, "five fields"),
        (6, DefectCode::BadAnnotation, "a polygon"),
        (7, DefectCode::BadAnnotation, "index of a class"),
        (8, DefectCode::BadAnnotation, "no number"),
        (9, DefectCode::BadAnnotation, "no number"),
    ];
    are(&defects(&folder), &expected, "labels/train/a.txt");
}

#[test]
fn defects_of_whole_images_of_yolo() {
    let folder = yolo(YAML, "0 0.5 0.5 1 1\n");
    folder.text("labels/train/gone.txt", "0 0.5 0.5 1 1\n").text("images/train/x.bmp", "BM\0\0\0\0\0\0\0\0");
    let found = defects(&folder);
    let codes: Vec<DefectCode> = found.iter().map(|defect| defect.code).collect();
    assert_eq!(codes, [DefectCode::BadAnnotation, DefectCode::MissingFile]);
    assert!(found[0].detail.contains("no image size") && found[0].detail.contains("x.bmp"), "{}", found[0]);
    assert!(found[1].detail.contains("no image of this name"), "{}", found[1]);
    // Upright or as stored: labels do not say. A picture that is turned by 90° (orientation 6).
    let exif = b"\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let path = folder.path().join("images/train/a.jpg");
    let stored = fs::read(&path).unwrap();
    fs::write(&path, [&stored[..2], &exif[..], &stored[2..]].concat()).unwrap();
    let turned = &defects(&folder)[0];
    assert!(turned.code == DefectCode::UnreadableImage && turned.detail.contains("EXIF"), "{turned}");
}

#[test]
fn yolo_is_found_in_its_usual_places() {
    let place = |yaml: &str, images: &str, labels: &str| {
        let folder = Folder::new();
        folder.text("data.yaml", yaml).image(&format!("{images}/a.jpg"));
        folder.text(&format!("{labels}/a.txt"), "0 0.5 0.5 1 1");
        assert_eq!(objects(&load(&folder.open(), Split::Train)).len(), 1, "{yaml}");
    };
    place("train: ../train/images\nnames: [a]", "train/images", "train/labels");
    place(
        "path: /somebody/else/coco8 # theirs\ntrain: images/train\nnames:\n  0: a\n",
        "images/train",
        "labels/train",
    );
    place("path: sub\ntrain: images\nnames:\n- a\n", "sub/images", "sub/labels");
    place("train: pictures\nnames: {0: a}", "pictures", "pictures");
    // A folder of images that is called so has its labels in it, not beside it.
    let folder = Folder::new();
    folder
        .text("images/set/data.yaml", "train: .\nnames: [a]")
        .text("images/set/classes.txt", "a\n")
        .image("images/set/x.jpg")
        .text("images/set/x.txt", "0 0.5 0.5 1 1");
    let opened = DetectionFolder::open(&folder.path().join("images/set")).unwrap();
    assert_eq!(objects(&load(&opened, Split::Train)).len(), 1);
}

#[test]
fn what_is_unclear_is_refused() {
    let folder = Folder::new();
    let error = folder.refusal();
    for part in ["COCO", "Pascal VOC", "YOLO", "data.yaml", "Annotations/*.xml"] {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    let folder = yolo(YAML, "0 0.5 0.5 1 1\n");
    folder.text("train.json", &coco_file("a.jpg"));
    let error = folder.refusal();
    assert!(error.contains("Coco and Yolo annotations; leave one"), "{error}");
    // A split whose folder is not there, and one without labels.
    let error = yolo(&YAML.replace("images/val", "images/gone"), "").refusal();
    assert!(error.contains("images/gone is no folder"), "{error}");
    let folder = yolo(YAML, "");
    fs::remove_dir_all(folder.path().join("labels/train")).unwrap();
    let error = folder.open().load(Split::Train, &options(Purpose::Eval)).unwrap_err().to_string();
    assert!(error.contains("labels/train"), "{error}");
    // A model of other classes.
    let labels = LoadOptions { labels: Some(3), ..options(Purpose::Eval) };
    let error = yolo(YAML, "0 0.5 0.5 1 1").open().load(Split::Train, &labels).unwrap_err();
    assert!(matches!(error, Error::Data(..)), "{error}");
    // Nothing to train on.
    let error = yolo(YAML, "").open().load(Split::Train, &options(Purpose::Train)).unwrap_err().to_string();
    assert!(error.contains("no image with an object"), "{error}");
}

/// The names of the classes in a folder with this `data.yaml`, or why there are none.
fn names_in(yaml: &str) -> Result<Vec<String>, String> {
    let folder = Folder::new();
    folder.text("data.yaml", yaml).image("images/a.jpg").text("labels/a.txt", "0 0.5 0.5 1 1");
    let opened = DetectionFolder::open(folder.path()).map_err(|error| error.to_string())?;
    Ok(names(&load(&opened, Split::Train)).into_iter().map(Into::into).collect())
}

#[test]
fn a_data_yaml_is_read_as_it_is_written() {
    // Ultralytics' coco8.yaml, and what Roboflow exports.
    let ultralytics = "# Ultralytics\n\n---\npath: coco8 # root\ntrain: images\nval: images # 4 images\ntest: # optional\n\n\
        # Classes\nnames:\n  0: person\n  1: bicycle\n  # one more\n  2: \"hot dog\"\n\ndownload: |\n  from x import y\n  y: 1\n";
    assert_eq!(names_in(ultralytics).unwrap(), ["person", "bicycle", "hot dog"]);
    let roboflow = "train: ../images\nval: ../images\n\nnc: 3\nnames: ['a, b', 'it''s', c#]\n\n\
        roboflow:\n  workspace: w\n  license: CC BY 4.0\n";
    assert_eq!(names_in(roboflow).unwrap(), ["a, b", "it's", "c#"]);
    for text in [
        "names: [a, b]",
        "names: [a,\n  b,\n]",
        "names:\n- a\n- b\n",
        "names:\n  - a\n  - 'b'\n",
        "names:\n  0: a\n  1: b\n",
        "names: {0: a, 1: b}",
    ] {
        assert_eq!(names_in(&format!("train: images\n{text}")).unwrap(), ["a", "b"], "{text}");
    }
    assert_eq!(names_in("train: images\nnames: [don't, 5]").unwrap(), ["don't", "5"]);
}

#[test]
fn another_data_yaml_is_refused() {
    let cases = [
        ("names: [a]", "none of `train`"),
        ("train: images\nnames: []", "no `names`"),
        ("train: images\nnames: [a]\nnc: 2", "`nc` is not 1"),
        ("train: [t, u]\nnames: [a]", "one plain or quoted text"),
        ("train:\n  - t\nnames: [a]", "one plain or quoted text"),
        ("train: t.txt\nnames: [a]", "t.txt is no folder"),
        ("train: *anchor\nnames: [a]", "one plain or quoted text"),
        ("train: images\nnames: a", "neither"),
        ("train: images\nnames:\n  0: a\n  2: b", "`1: name`"),
        ("train: images\nnames:\n  0: a\n  1: a", "\"a\" occurs twice"),
        ("train: images\nnames: [a, !tag b]", "\"!tag b\""),
        ("train: images\nnames: [\"a\\n\"]", "one plain or quoted text"),
    ];
    for (text, said) in cases {
        let error = names_in(text).unwrap_err();
        assert!(error.contains(said) && error.contains("data.yaml: "), "{text:?}: {error}");
    }
}
