//! PrRoIPool of several levels as standard operators: the integral is separable, so that a box's bins are a product
//! of the map with a matrix along each axis.

use ebm_nn::onnx::{Attribute, Graph, Value};

use super::{Pooler, Pooling, View};
use crate::error::{Error, Result};

/// Bins are taken to have at least so many pixels of the map, where a difference of integrals would say nothing.
const LEAST_BIN: f32 = 1e-4;

/// A box along an axis, (R, 1) each.
struct Ends {
    low: Value,
    high: Value,
}

impl Pooler {
    /// [`pool`](Self::pool) of `boxes (R, 4)` in the only image of `levels`, (1, C, H, W) each: (R, C Σ bins²), in
    /// the boxes' order. A box is pooled from every level that it could have, and keeps the one that it has.
    ///
    /// # Errors
    /// [`Error::Config`] where boxes are pooled by RoIAlign.
    pub fn onnx(&self, graph: &mut Graph, levels: &[Value], boxes: &Value) -> Result<Value> {
        if self.pooling != Pooling::PrRoi {
            let reason = "only PrRoIPool is written as standard operators".to_owned();
            return Err(Error::Config { name: "pooling".into(), reason });
        }
        let mut corner = |index: i64| {
            let index = graph.integers(&[index]);
            graph.node("Gather", &[boxes, &index], &[("axis", Attribute::Int(1))])
        };
        let ends = [[0, 2], [1, 3]].map(|axis| {
            let [low, high] = axis.map(&mut corner);
            Ends { low, high }
        });
        let own = self.level_onnx(graph, &ends);
        let mut found = Vec::new();
        for view in &self.views {
            let mut pooled: Option<Value> = None;
            for level in 0..=self.coarsest {
                let seen = self.level_seen(level, view);
                if level > 0 && self.level_seen(level - 1, view) == seen {
                    continue;
                }
                let here = self.pool_onnx(graph, &levels[seen], seen, view, &ends);
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

    /// [`level`](Self::level) of each box, (R, 1).
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

    /// What `view` sees of the boxes in a level's `map (1, C, H, W)`: (R, C bins²).
    fn pool_onnx(
        &self,
        graph: &mut Graph,
        map: &Value,
        level: usize,
        view: &View,
        ends: &[Ends; 2],
    ) -> Value {
        let (origin, scale) = (self.origins[level], self.scale(level) as f32);
        let shape = graph.node("Shape", &[map], &[]);
        // x runs along the last axis of the map, y along the one before.
        let [x, y] = [(&ends[0], 3), (&ends[1], 2)].map(|(ends, axis)| {
            let axis = graph.integer(axis);
            let size = graph.node("Gather", &[&shape, &axis], &[("axis", Attribute::Int(0))]);
            weights(graph, ends, &size, &Axis { origin, scale, view })
        });
        let (one, x_by_pixel) = (graph.integers(&[1]), &[("perm", Attribute::Ints(&[0, 2, 1]))]);
        let x = graph.node("Transpose", &[&x], x_by_pixel);
        let [x, y] = [x, y].map(|weights| graph.node("Unsqueeze", &[&weights, &one], &[]));
        // (1, C, H, W) · (R, 1, W, bins), and (R, 1, bins, H) · (R, C, H, bins).
        let rows = graph.node("MatMul", &[map, &x], &[]);
        let bins = graph.node("MatMul", &[&y, &rows], &[]);
        graph.node("Flatten", &[&bins], &[("axis", Attribute::Int(1))])
    }
}

/// How boxes lie along an axis of a map.
struct Axis<'a> {
    origin: f32,
    scale: f32,
    view: &'a View,
}

/// The mean of each pixel's tent over each bin, (R, bins, size): with T the integral of the tent, the bin [a, b] has
/// (T(b) − T(a)) / (b − a), and T(t) = ½ + c − ½ c |c| for c = t between −1 and 1.
fn weights(graph: &mut Graph, Ends { low, high }: &Ends, size: &Value, axis: &Axis<'_>) -> Value {
    let Axis { origin, scale, view } = axis;
    let mut by = |op: &str, x: &Value, number: f32| {
        let number = graph.number(number);
        graph.node(op, &[x, &number], &[])
    };
    let (half_low, half_high) = (by("Mul", low, 0.5), by("Mul", high, 0.5));
    let center = graph.node("Add", &[&half_low, &half_high], &[]);
    let half = graph.node("Sub", &[&half_high, &half_low], &[]);
    let mut by = |op: &str, x: &Value, number: f32| {
        let number = graph.number(number);
        graph.node(op, &[x, &number], &[])
    };
    // Everything in pixels of the map.
    let half = by("Mul", &half, view.context * scale);
    let center = by("Sub", &center, *origin);
    let center = by("Mul", &center, *scale);
    let bin = by("Mul", &half, 2.0 / view.bins as f32);
    let bin = by("Max", &bin, LEAST_BIN);
    let edges: Vec<f32> = (0..=view.bins).map(|edge| 2.0 * edge as f32 / view.bins as f32 - 1.0).collect();
    let edges = graph.numbers(&edges);
    let edges = graph.node("Mul", &[&half, &edges], &[]);
    let edges = graph.node("Add", &[&center, &edges], &[]);

    let (zero, one) = (graph.integer(0), graph.integer(1));
    let pixels = graph.node("Range", &[&zero, size, &one], &[]);
    let pixels = graph.node("Cast", &[&pixels], &[("to", Attribute::Int(1))]);
    let last = graph.integers(&[2]);
    let edges = graph.node("Unsqueeze", &[&edges, &last], &[]);
    let t = graph.node("Sub", &[&edges, &pixels], &[]);
    let (low, high) = (graph.number(-1.0), graph.number(1.0));
    let t = graph.node("Clip", &[&t, &low, &high], &[]);
    let size_of_t = graph.node("Abs", &[&t], &[]);
    let square = graph.node("Mul", &[&t, &size_of_t], &[]);
    let half = graph.number(0.5);
    let square = graph.node("Mul", &[&square, &half], &[]);
    let integral = graph.node("Sub", &[&t, &square], &[]);

    let mut part = |from: i64, until: i64| {
        let [from, until, axis] = [from, until, 1].map(|place| graph.integers(&[place]));
        graph.node("Slice", &[&integral, &from, &until, &axis], &[])
    };
    let bins = view.bins as i64;
    let (upper, lower) = (part(1, bins + 1), part(0, bins));
    let difference = graph.node("Sub", &[&upper, &lower], &[]);
    let bin = graph.node("Unsqueeze", &[&bin, &last], &[]);
    graph.node("Div", &[&difference, &bin], &[])
}
