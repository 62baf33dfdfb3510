//! Export of the module to ONNX, for one target, one crop of a frame, and its boxes.

use ebm_nn::onnx::{Attribute, Ends, Graph, PrRoiPool, Value};

use super::network::ReferenceBranch;
use super::{BoxModule, SCALES};
use crate::Result;

const CHANNELS: &[(&str, Attribute<'_>)] = &[("axis", Attribute::Int(1))];

impl BoxModule {
    /// Adds the modulation vectors, `(1, channels)` each, of the target in `bbox` `(1, 4)`, x, y, w, h, of the crop
    /// with the features `reference`.
    pub(crate) fn modulation_onnx(
        &self,
        graph: &mut Graph,
        reference: &[Value; 2],
        bbox: &Value,
    ) -> Result<[Value; 2]> {
        let ReferenceBranch { convs, fc3, vectors } = &self.reference;
        let ends = ends(graph, bbox);
        let mut pool = |map: usize| -> Result<Value> {
            let features = convs[map].onnx(graph, &reference[map])?;
            Ok(pool(graph, &features, &ends, self.config.reference_pool[map], map))
        };
        let (third, fourth) = (pool(0)?, pool(1)?);
        let third = fc3.onnx(graph, &third)?;
        let [third, fourth] = [third, fourth].map(|pooled| graph.node("Flatten", &[&pooled], CHANNELS));
        let both = graph.node("Concat", &[&third, &fourth], CHANNELS);
        let both = as_map(graph, &both);
        let mut vector = |map: usize| -> Result<Value> {
            let vector = vectors[map].onnx(graph, &both)?;
            Ok(graph.node("Flatten", &[&vector], CHANNELS))
        };
        Ok([vector(0)?, vector(1)?])
    }

    /// Adds the modulated maps of the crop with the features `test`.
    pub(crate) fn test_features_onnx(
        &self,
        graph: &mut Graph,
        test: &[Value; 2],
        modulation: &[Value; 2],
    ) -> Result<[Value; 2]> {
        let mut map = |map: usize| -> Result<Value> {
            let [first, second] = &self.test[map];
            let features = first.onnx(graph, &test[map])?;
            let features = second.onnx(graph, &features)?;
            let vector = as_map(graph, &modulation[map]);
            Ok(graph.node("Mul", &[&features, &vector], &[]))
        };
        Ok([map(0)?, map(1)?])
    }

    /// Adds f `(M)` of `boxes` `(M, 4)`, x, y, w, h.
    pub(crate) fn f_onnx(&self, graph: &mut Graph, maps: &[Value; 2], boxes: &Value) -> Result<Value> {
        let ends = ends(graph, boxes);
        let mut hidden = |map: usize| -> Result<Value> {
            let pooled = pool(graph, &maps[map], &ends, self.config.pool[map], map);
            let pooled = graph.node("Flatten", &[&pooled], CHANNELS);
            self.of_box[map].onnx(graph, &pooled)
        };
        let (third, fourth) = (hidden(0)?, hidden(1)?);
        let both = graph.node("Concat", &[&third, &fourth], CHANNELS);
        let f = graph.linear(&both, &self.weight, Some(&self.bias))?;
        let axis = graph.integers(&[1]);
        Ok(graph.node("Squeeze", &[&f, &axis], &[]))
    }
}

/// Adds the ends of `boxes` (M, 4), x, y, w, h, along both axes.
fn ends(graph: &mut Graph, boxes: &Value) -> [Ends; 2] {
    let [low, size] = [[0, 1], [2, 3]].map(|columns| {
        let columns = graph.integers(&columns);
        graph.node("Gather", &[boxes, &columns], CHANNELS)
    });
    let high = graph.node("Add", &[&low, &size], &[]);
    let corners = graph.node("Concat", &[&low, &high], CHANNELS);
    Ends::of_corners(graph, &corners)
}

/// Adds boxes pooled from the map with the index `scale`, (R, C, bins, bins).
fn pool(graph: &mut Graph, map: &Value, boxes: &[Ends; 2], bins: usize, scale: usize) -> Value {
    let pool = PrRoiPool { bins, scale: SCALES[scale] as f32, origin: 0.0, context: 1.0 };
    pool.onnx(graph, map, boxes)
}

/// Adds a vector (N, C) as a map (N, C, 1, 1).
fn as_map(graph: &mut Graph, vector: &Value) -> Value {
    let axes = graph.integers(&[2, 3]);
    graph.node("Unsqueeze", &[vector, &axes], &[])
}
