//! Still images as sequences of one frame.

use super::{Frames, Sequence};
use crate::coco::CocoDataset;

/// Makes a sequence of one frame from each object that is no crowd, named by its annotation's id.
pub fn sequences(dataset: &CocoDataset) -> Vec<Sequence> {
    let objects =
        dataset.images.iter().flat_map(|image| image.objects.iter().map(move |object| (image, object)));
    let single = objects.filter(|(_, object)| !object.iscrowd).map(|(image, object)| {
        let [x0, y0, x1, y1] = object.bbox.map(f64::from);
        Sequence {
            name: object.annotation_id.to_string(),
            frames: Frames::Listed(vec![image.path.clone()]),
            boxes: vec![[x0, y0, x1 - x0, y1 - y0]],
            visible: None,
        }
    });
    single.collect()
}
