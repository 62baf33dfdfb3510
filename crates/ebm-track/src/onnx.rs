//! Export of a tracker's f as three ONNX files: modulation by the target, maps of a frame, and f of boxes.

use ebm_data::transform::Normalise;
use ebm_nn::onnx::{Graph, Length, Part};

use crate::saved::TRACKING;
use crate::trained::Tracker;
use crate::{Error, Result};

impl Tracker {
    /// Exports backbone and box module as three ONNX files. Boxes are x, y, w, h in pixels of a crop.
    ///
    /// The first file runs once for a target. It maps `pixels` `(1, 3, H, W)`, a crop about the target, normalised as
    /// the metadata say, and the target's `box` `(1, 4)` to `modulation_0` and `modulation_1`. The second runs once for
    /// a frame. It maps `pixels` of the frame and the modulation to `map_0` and `map_1`. The third maps these and
    /// `boxes` `(M, 4)` to `f` `(M)`. The caller implements the classifier, which learns while tracking, and the
    /// ascent: ONNX has no gradients.
    ///
    /// # Errors
    /// When a parameter cannot be read.
    pub fn onnx(&self) -> Result<Vec<Part>> {
        let (saved, networks) = (&self.saved, &self.networks);
        let (backbone, module) = (&networks.backbone, &networks.boxes);
        let text = |toml: std::result::Result<String, toml::ser::Error>| {
            toml.map_err(|error| Error::config("tracker", error))
        };
        let Normalise { scale, mean, std, .. } = Normalise::IMAGENET;
        let input = format!("channels = \"rgb\"\nscale = {scale}\nmean = {mean:?}\nstd = {std:?}\n");
        let metadata = [
            ("task", TRACKING.to_owned()),
            ("input", input),
            ("tracker", text(toml::to_string(&saved.tracker))?),
            ("refinement", text(toml::to_string(&saved.refinement))?),
        ];
        let [mut reference, mut features, mut head] = ["reference", "features", "head"].map(Graph::new);
        let one = Length::Fixed(1);
        let crop = [one, Length::Fixed(3), Length::Any("height"), Length::Any("width")];

        let pixels = reference.input("pixels", &crop);
        let bbox = reference.input("box", &[one, Length::Fixed(4)]);
        let maps = backbone.onnx(&mut reference, &pixels)?;
        let modulation = module.modulation_onnx(&mut reference, &maps, &bbox)?;

        let pixels = features.input("pixels", &crop);
        let channels = module.config().pred_input.map(Length::Fixed);
        let modulation = [0, 1].map(|i| {
            let name = ["modulation_0", "modulation_1"][i];
            reference.hand_on(&mut features, name, &modulation[i], &[one, channels[i]])
        });
        let maps = backbone.onnx(&mut features, &pixels)?;
        let maps = module.test_features_onnx(&mut features, &maps, &modulation)?;

        let maps = [0, 1].map(|i| {
            let [height, width] = [["height_0", "width_0"], ["height_1", "width_1"]][i].map(Length::Any);
            let name = ["map_0", "map_1"][i];
            features.hand_on(&mut head, name, &maps[i], &[one, channels[i], height, width])
        });
        let boxes = head.input("boxes", &[Length::Any("boxes"), Length::Fixed(4)]);
        let f = module.f_onnx(&mut head, &maps, &boxes)?;
        head.output("f", &f, &[Length::Any("boxes")]);
        [reference, features, head].into_iter().map(|graph| Ok(graph.finish(&metadata)?)).collect()
    }
}
