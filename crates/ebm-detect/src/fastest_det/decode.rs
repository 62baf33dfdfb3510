//! From the numbers of a cell to a box with a class and a score.

use candle_core::Tensor;

use crate::{Result, box_head::Candidate};

/// How much the probability of an object and that of its class weigh in the score, as exponents.
const WEIGHTS: [f32; 2] = [0.6, 0.4];

/// What the network says of one image.
pub(super) struct Cells {
    /// (rows, columns, 5 + classes).
    numbers: Vec<f32>,
    rows: usize,
    columns: usize,
}

/// The first image of (N, rows, columns, 5 + classes).
pub(super) fn cells_of(output: &Tensor) -> Result<Cells> {
    let (_, rows, columns, _) = output.dims4()?;
    Ok(Cells { numbers: output.get(0)?.flatten_all()?.to_vec1()?, rows, columns })
}

/// The objects of an image of this height and width whose score is at least `threshold`; one that is no
/// number stays, to be refused.
pub(super) fn decode(cells: &Cells, (height, width): (usize, usize), threshold: f32) -> Vec<Candidate> {
    let Cells { numbers, rows, columns } = cells;
    let each = numbers.len() / (rows * columns).max(1);
    let sides = [width as f32, height as f32];
    let candidate = |(cell, numbers): (usize, &[f32])| {
        let [object, x, y, w, h, ref classes @ ..] = *numbers else { return None };
        let (label, class) = classes
            .iter()
            .enumerate()
            .fold((0, f32::MIN), |best, (label, &p)| if p > best.1 { (label + 1, p) } else { best });
        let score = object.powf(WEIGHTS[0]) * class.powf(WEIGHTS[1]);
        let centre = [
            ((cell % columns) as f32 + x.tanh()) / *columns as f32 * sides[0],
            ((cell / columns) as f32 + y.tanh()) / *rows as f32 * sides[1],
        ];
        let half = [logistic(w) * sides[0] / 2., logistic(h) * sides[1] / 2.];
        let bbox = [centre[0] - half[0], centre[1] - half[1], centre[0] + half[0], centre[1] + half[1]];
        (score >= threshold || score.is_nan()).then_some(Candidate { bbox, label, score })
    };
    numbers.chunks_exact(each.max(1)).enumerate().filter_map(candidate).collect()
}

fn logistic(x: f32) -> f32 {
    1. / (1. + (-x).exp())
}
