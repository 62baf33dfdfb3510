//! A refiner as two files for other runtimes: from an image to its pyramid, and from that and boxes to f.

use ebm_nn::onnx::{Graph, Length, Part};

use super::BoxRefiner;
use crate::{Error, Result};

impl BoxRefiner {
    /// The network as ONNX. The first file takes `pixels` (1, 3, H, W), normalised and padded as its metadata say, and
    /// gives `level_0`, `level_1`, …; the second takes these and `boxes` (R, 4), (x0, y0, x1, y1) in pixels of the
    /// input with exclusive ends, and gives `f` (R, K) for the K classes that it tells apart. The ascent is the
    /// caller's: ONNX has no gradients.
    ///
    /// # Errors
    /// When a parameter cannot be read.
    pub fn onnx(&self) -> Result<Vec<Part>> {
        let config = &self.config;
        let text = |toml: std::result::Result<String, toml::ser::Error>| {
            toml.map_err(|error| Error::config("refiner", error))
        };
        let metadata = [
            ("task", crate::weights::REFINER.to_owned()),
            ("input", text(toml::to_string(&config.input))?),
            ("ascent", text(toml::to_string(&self.ascent))?),
            ("classes", self.classes.iter().map(|class| class.name.as_str()).collect::<Vec<_>>().join(", ")),
        ];
        let channels = config.network.channels;
        let sides: Vec<[String; 2]> = (0..config.network.strides.len())
            .map(|level| ["height", "width"].map(|side| format!("{side}_{level}")))
            .collect();
        let mut features = Graph::new("features");
        let any = [Length::Fixed(1), Length::Fixed(3), Length::Any("height"), Length::Any("width")];
        let pixels = features.input("pixels", &any);
        let levels = self.network.pyramid_onnx(&mut features, &pixels)?;
        let mut head = Graph::new("head");
        let mut given = Vec::new();
        for ((level, value), sides) in levels.iter().enumerate().zip(&sides) {
            let (name, [height, width]) = (format!("level_{level}"), sides);
            let shape = [Length::Fixed(1), Length::Fixed(channels), Length::Any(height), Length::Any(width)];
            given.push(features.hand_on(&mut head, &name, value, &shape));
        }
        let boxes = head.input("boxes", &[Length::Any("boxes"), Length::Fixed(4)]);
        let f = self.network.head().onnx(&mut head, &given, &boxes)?;
        head.output("f", &f, &[Length::Any("boxes"), Length::Fixed(config.network.num_classes)]);
        Ok(vec![features.finish(&metadata)?, head.finish(&metadata)?])
    }
}
