//! PrRoIPool as standard operators. The integral is separable, so the bins of a box are a product of the map with
//! a matrix along each axis.

use super::{Attribute, Graph, Value};

/// Least size of a bin in pixels of the map. For smaller bins the difference of integrals would be rounding
/// error.
const MIN_BIN: f32 = 1e-4;

/// Ends of the boxes along an axis, (R, 1) each.
#[derive(Clone, Debug)]
pub struct Ends {
    /// Lower ends.
    pub low: Value,
    /// Upper ends.
    pub high: Value,
}

impl Ends {
    /// Returns the ends of the boxes with the `corners (R, 4)`, x0, y0, x1, y1, first across, then down.
    pub fn of_corners(graph: &mut Graph, corners: &Value) -> [Self; 2] {
        let mut corner = |index: i64| {
            let index = graph.integers(&[index]);
            graph.node("Gather", &[corners, &index], &[("axis", Attribute::Int(1))])
        };
        [[0, 2], [1, 3]].map(|axis| {
            let [low, high] = axis.map(&mut corner);
            Self { low, high }
        })
    }
}

/// Settings of [`prroi_pool`](ebm_ops::roi::prroi_pool()).
#[derive(Clone, Copy, Debug)]
pub struct PrRoiPool {
    /// Number of bins per side.
    pub bins: usize,
    /// Pixels of the map per pixel of the boxes' coordinates.
    pub scale: f32,
    /// Centre of the map's first pixel in the boxes' coordinates.
    pub origin: f32,
    /// Factor by which boxes are enlarged about their centres.
    pub context: f32,
}

impl PrRoiPool {
    /// Pools `boxes` on the only map of `map (1, C, H, W)` to (R, C, bins, bins).
    pub fn onnx(&self, graph: &mut Graph, map: &Value, boxes: &[Ends; 2]) -> Value {
        let shape = graph.node("Shape", &[map], &[]);
        // x runs along the last axis of the map, y along the one before.
        let [x, y] = [(&boxes[0], 3), (&boxes[1], 2)].map(|(ends, axis)| {
            let axis = graph.integer(axis);
            let size = graph.node("Gather", &[&shape, &axis], &[("axis", Attribute::Int(0))]);
            self.weights(graph, ends, &size)
        });
        let (one, x_by_pixel) = (graph.integers(&[1]), &[("perm", Attribute::Ints(&[0, 2, 1]))]);
        let x = graph.node("Transpose", &[&x], x_by_pixel);
        let [x, y] = [x, y].map(|weights| graph.node("Unsqueeze", &[&weights, &one], &[]));
        // (1, C, H, W) · (R, 1, W, bins), and (R, 1, bins, H) · (R, C, H, bins).
        let rows = graph.node("MatMul", &[map, &x], &[]);
        graph.node("MatMul", &[&y, &rows], &[])
    }

    /// Returns the mean of each pixel's tent function over each bin, (R, bins, size). With the integral T of the
    /// tent, the mean over the bin [a, b] is (T(b) − T(a)) / (b − a), where T(t) = ½ + c − ½ c |c| and c is t
    /// clamped to [−1, 1].
    fn weights(&self, graph: &mut Graph, Ends { low, high }: &Ends, size: &Value) -> Value {
        let &Self { bins, scale, origin, context } = self;
        let mut by = |op: &str, x: &Value, number: f32| {
            let number = graph.number(number);
            graph.node(op, &[x, &number], &[])
        };
        let (half_low, half_high) = (by("Mul", low, 0.5), by("Mul", high, 0.5));
        let center = graph.node("Add", &[&half_low, &half_high], &[]);
        let half = graph.node("Sub", &[&half_high, &half_low], &[]);
        // A box that ends before it begins is empty.
        let half = graph.node("Relu", &[&half], &[]);
        let mut by = |op: &str, x: &Value, number: f32| {
            let number = graph.number(number);
            graph.node(op, &[x, &number], &[])
        };
        // All lengths are now in pixels of the map.
        let half = by("Mul", &half, context * scale);
        let center = by("Sub", &center, origin);
        let center = by("Mul", &center, scale);
        let bin = by("Mul", &half, 2.0 / bins as f32);
        let bin = by("Max", &bin, MIN_BIN);
        let edges: Vec<f32> = (0..=bins).map(|edge| 2.0 * edge as f32 / bins as f32 - 1.0).collect();
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
        let bins = bins as i64;
        let (upper, lower) = (part(1, bins + 1), part(0, bins));
        let difference = graph.node("Sub", &[&upper, &lower], &[]);
        let bin = graph.node("Unsqueeze", &[&bin, &last], &[]);
        graph.node("Div", &[&difference, &bin], &[])
    }
}
