//! f of a tracker as three files for other runtimes: how the target looks, the maps of a frame, and f of boxes there.

use ebm_data::transform::Normalise;
use ebm_nn::onnx::{Graph, Length, Part};

use crate::saved::TRACKING;
use crate::trained::Tracker;
use crate::{Error, Result};

impl Tracker {
    /// Backbone and box module as ONNX, boxes as x, y, w, h in pixels of a crop. The first file takes `pixels`
    /// (1, 3, H, W), a crop about the target that is normalised as its metadata say, and the target's `box` (1, 4)
    /// there, and gives `modulation_0` and `modulation_1`: once for a target. The second takes `pixels` of another
    /// frame and these, and gives `map_0` and `map_1`: once for a frame. The third takes the maps and `boxes` (M, 4)
    /// and gives `f` (M). The rest is the caller's: the classifier, which learns while tracking, and the ascent,
    /// since ONNX has no gradients.
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
