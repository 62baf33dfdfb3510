//! Fewer points for the same line.

/// x, y.
pub type Point = [f64; 2];

/// Points that are left out lie at most this far from the line, in pixels.
const TOLERANCE: f64 = 0.4;

/// `line` without the points that its course hardly needs, by the algorithm of Ramer, Douglas and Peucker.
pub fn simplified(line: &[Point]) -> Vec<Point> {
    let mut kept = vec![false; line.len()];
    let Some(last) = line.len().checked_sub(1) else { return Vec::new() };
    (kept[0], kept[last]) = (true, true);
    let mut pending = vec![(0, last)];
    while let Some((first, last)) = pending.pop() {
        let distances = (first + 1..last).map(|i| (i, distance(line[i], line[first], line[last])));
        if let Some((farthest, far)) = distances.max_by(|a, b| a.1.total_cmp(&b.1))
            && far > TOLERANCE
        {
            kept[farthest] = true;
            pending.extend([(first, farthest), (farthest, last)]);
        }
    }
    line.iter().zip(kept).filter_map(|(point, kept)| kept.then_some(*point)).collect()
}

/// From `point` to the segment between `a` and `b`.
fn distance(point: Point, a: Point, b: Point) -> f64 {
    let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
    let (px, py) = (point[0] - a[0], point[1] - a[1]);
    let length = dx * dx + dy * dy;
    let along = if length > 0.0 { ((px * dx + py * dy) / length).clamp(0.0, 1.0) } else { 0.0 };
    (px - along * dx).hypot(py - along * dy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_lies_near() {
        let circle: Vec<Point> = (0..=1000)
            .map(|i| {
                let (sin, cos) = (f64::from(i) / 1000.0 * std::f64::consts::TAU).sin_cos();
                [100.0 * cos, 100.0 * sin]
            })
            .collect();
        let few = simplified(&circle);
        assert!((30..80).contains(&few.len()), "{}", few.len());
        let far =
            |point: &Point| few.windows(2).map(|ends| distance(*point, ends[0], ends[1])).fold(1e9, f64::min);
        assert!(circle.iter().all(|point| far(point) <= TOLERANCE));
        assert_eq!((few[0], few[few.len() - 1]), (circle[0], circle[1000]));
    }

    #[test]
    fn corners_stay_and_short_lines_pass() {
        let corner = [[0.0, 0.0], [5.0, 0.1], [10.0, 0.0], [10.0, 10.0]];
        assert_eq!(simplified(&corner), [corner[0], corner[2], corner[3]]);
        assert_eq!(simplified(&corner[..1]), corner[..1]);
        assert!(simplified(&[]).is_empty());
    }
}
