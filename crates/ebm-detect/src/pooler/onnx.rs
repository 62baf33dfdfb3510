//! PrRoIPool of several levels as standard ONNX operators.

use ebm_nn::onnx::{Attribute, Ends, Graph, PrRoiPool, Value};

use super::{Pooler, Pooling};
use crate::{Error, Result};

impl Pooler {
    /// Adds [`pool`](Self::pool) of `boxes (R, 4)` in one image to an ONNX graph, with `levels` (1, C, H, W) each. The
    /// output is (R, C Σ bins²), in the boxes' order. Every box is pooled from all levels, and its own is selected.
    ///
    /// # Errors
    /// [`Error::Config`] if boxes are pooled by RoIAlign.
    pub fn onnx(&self, graph: &mut Graph, levels: &[Value], boxes: &Value) -> Result<Value> {
        if self.pooling != Pooling::PrRoi {
            return Err(Error::config("pooling", "only PrRoIPool is written as standard operators"));
        }
        let ends = Ends::of_corners(graph, boxes);
        let own = self.level_onnx(graph, &ends);
        let mut found = Vec::new();
        for view in &self.views {
            let mut pooled: Option<Value> = None;
            for level in 0..=self.coarsest {
                let seen = self.level_seen(level, view);
                if level > 0 && self.level_seen(level - 1, view) == seen {
                    continue;
                }
                let (origin, scale) = (self.origins[seen], self.scale(seen) as f32);
                let pool = PrRoiPool { bins: view.bins, scale, origin, context: view.context };
                let here = pool.onnx(graph, &levels[seen], &ends);
                let here = graph.node("Flatten", &[&here], &[("axis", Attribute::Int(1))]);
                pooled = Some(match pooled {
                    None => here,
                    Some(before) => {
                        let least = graph.number(level as f32 - 0.5);
                        let is_here = graph.node("Greater", &[&own, &least], &[]);
                        graph.node("Where", &[&is_here, &here, &before], &[])
                    }
                });
            }
            found.extend(pooled);
        }
        Ok(graph.node("Concat", &found.iter().collect::<Vec<_>>(), &[("axis", Attribute::Int(1))]))
    }

    /// Adds [`level`](Self::level) of each box, (R, 1), to an ONNX graph.
    fn level_onnx(&self, graph: &mut Graph, ends: &[Ends; 2]) -> Value {
        let [across, down] = ends.each_ref().map(|Ends { low, high }| {
            let side = graph.node("Sub", &[high, low], &[]);
            graph.node("Relu", &[&side], &[])
        });
        let area = graph.node("Mul", &[&across, &down], &[]);
        let side = graph.node("Sqrt", &[&area], &[]);
        let by = |graph: &mut Graph, op: &str, x: &Value, number: f32| {
            let number = graph.number(number);
            graph.node(op, &[x, &number], &[])
        };
        let ratio = by(graph, "Div", &side, self.canonical_size);
        let ratio = by(graph, "Add", &ratio, 1e-6);
        let logarithm = graph.node("Log", &[&ratio], &[]);
        let first = self.strides.first().map_or(0, |stride| stride.ilog2() as usize);
        let level = by(graph, "Mul", &logarithm, std::f32::consts::LOG2_E);
        let level = by(graph, "Add", &level, self.canonical_level as f32 - first as f32);
        let level = graph.node("Floor", &[&level], &[]);
        let (low, high) = (graph.number(0.0), graph.number(self.coarsest as f32));
        graph.node("Clip", &[&level, &low, &high], &[])
    }
}
