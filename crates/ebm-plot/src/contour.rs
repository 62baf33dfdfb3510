//! Polygons of the regions in which a density on a grid exceeds a level.

/// A point (x, y).
pub type Point = [f64; 2];

/// Largest distance from the line of a point that is left out, in pixels.
const TOLERANCE: f64 = 0.3;

/// Returns the polygons that cover { density ≥ `level` }, for `columns` of equal length. Coordinates are column
/// and row.
///
/// The density is linear between the rows of a column. Intervals of neighbouring columns that overlap one to one
/// form one polygon; where they split, merge or end, a polygon ends half a column further.
pub fn regions(columns: &[Vec<f64>], level: f64) -> Vec<Vec<Point>> {
    let last_column = columns.len().saturating_sub(1) as f64;
    let mut closed = Vec::new();
    let mut open: Vec<Ribbon> = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let x = i as f64;
        let intervals = intervals(column, level);
        let mut next = Vec::with_capacity(intervals.len());
        let mut continued = vec![false; open.len()];
        for interval in &intervals {
            let before: Vec<usize> = (0..open.len()).filter(|&k| overlap(open[k].end, *interval)).collect();
            let alone =
                |k: usize| intervals.iter().filter(|other| overlap(open[k].end, **other)).count() == 1;
            match before[..] {
                [k] if alone(k) => {
                    continued[k] = true;
                    let mut ribbon = std::mem::take(&mut open[k]);
                    ribbon.push(x, *interval);
                    next.push(ribbon);
                }
                _ => {
                    let mut ribbon = Ribbon::default();
                    ribbon.push((x - 0.5).max(0.0), *interval);
                    ribbon.push(x, *interval);
                    next.push(ribbon);
                }
            }
        }
        let ended = open.into_iter().zip(continued).filter(|(_, continued)| !continued);
        closed.extend(ended.map(|(ribbon, _)| ribbon.close(x - 0.5)));
        open = next;
    }
    closed.extend(open.into_iter().map(|ribbon| ribbon.close(last_column)));
    closed
}

/// The lower and upper boundary of a region, to which columns are added, and its last interval.
#[derive(Default)]
struct Ribbon {
    lower: Vec<Point>,
    upper: Vec<Point>,
    end: [f64; 2],
}

impl Ribbon {
    fn push(&mut self, x: f64, [low, high]: [f64; 2]) {
        self.lower.push([x, low]);
        self.upper.push([x, high]);
        self.end = [low, high];
    }

    fn close(mut self, x: f64) -> Vec<Point> {
        self.push(x, self.end);
        self.upper.reverse();
        self.lower.append(&mut self.upper);
        self.lower
    }
}

fn overlap(a: [f64; 2], b: [f64; 2]) -> bool {
    a[0] < b[1] && b[0] < a[1]
}

/// Returns the intervals of rows in which `column` is at least `level`.
fn intervals(column: &[f64], level: f64) -> Vec<[f64; 2]> {
    let mut found = Vec::new();
    let mut start = column.first().filter(|first| **first >= level).map(|_| 0.0);
    for (j, pair) in column.windows(2).enumerate() {
        let crossing = || j as f64 + (level - pair[0]) / (pair[1] - pair[0]);
        match (start, pair[1] >= level) {
            (None, true) => start = Some(crossing()),
            (Some(low), false) => {
                found.push([low, crossing()]);
                start = None;
            }
            _ => {}
        }
    }
    found.extend(start.map(|low| [low, column.len().saturating_sub(1) as f64]));
    found
}

/// Returns `line` without points close to its course, by the algorithm of Ramer, Douglas and Peucker.
pub fn simplified(line: &[Point]) -> Vec<Point> {
    let [first, .., last] = *line else { return line.to_vec() };
    let distances = (1..line.len() - 1).map(|i| (i, distance(line[i], first, last)));
    match distances.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((farthest, far)) if far > TOLERANCE => {
            let mut kept = simplified(&line[..=farthest]);
            kept.pop();
            kept.extend(simplified(&line[farthest..]));
            kept
        }
        _ => vec![first, last],
    }
}

/// Returns the distance from `point` to the segment between `a` and `b`.
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
        let angles = (0..=1000).map(|i| f64::from(i) / 1000.0 * std::f64::consts::TAU);
        let circle: Vec<Point> = angles.map(|angle| [100.0 * angle.cos(), 100.0 * angle.sin()]).collect();
        let few = simplified(&circle);
        assert!((30..90).contains(&few.len()), "{}", few.len());
        let far =
            |point: &Point| few.windows(2).map(|ends| distance(*point, ends[0], ends[1])).fold(1e9, f64::min);
        assert!(circle.iter().all(|point| far(point) <= TOLERANCE));
        assert_eq!((few[0], few[few.len() - 1]), (circle[0], circle[1000]));
        let corner = [[0.0, 0.0], [5.0, 0.1], [10.0, 0.0], [10.0, 10.0]];
        assert_eq!(simplified(&corner), [corner[0], corner[2], corner[3]]);
        assert!(simplified(&[]).is_empty());
    }

    /// The area inside, by the shoelace formula.
    fn area(polygon: &[Point]) -> f64 {
        let ends = polygon.iter().zip(polygon.iter().cycle().skip(1));
        (ends.map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum::<f64>() / 2.0).abs()
    }

    #[test]
    fn a_cone_is_cut_in_a_disc() {
        let radius = |i: usize, j: usize| (i as f64 - 100.0).hypot(j as f64 - 100.0);
        let cone: Vec<Vec<f64>> =
            (0..201).map(|i| (0..201).map(|j| 100.0 - radius(i, j)).collect()).collect();
        let found = regions(&cone, 40.0);
        assert_eq!(found.len(), 1);
        let disc = std::f64::consts::PI * 60.0 * 60.0;
        assert!((area(&found[0]) / disc - 1.0).abs() < 2e-3, "{}", area(&found[0]));
    }

    #[test]
    fn splits_and_merges_lose_and_repeat_nothing() {
        // Rows at or above the level 1, column by column: one interval, two, two, one, none.
        let columns =
            [[2., 2., 2., 2.], [2., 0., 0., 2.], [2., 0., 0., 2.], [2., 2., 2., 2.], [0., 0., 0., 0.]];
        let columns: Vec<Vec<f64>> = columns.iter().map(|column| column.to_vec()).collect();
        let found = regions(&columns, 1.0);
        assert_eq!(found.len(), 4);
        // 0.5 columns of length 3, 2 of length 1, 1 of length 3.
        let total: f64 = found.iter().map(|polygon| area(polygon)).sum();
        assert!((total - 6.5).abs() < 1e-12, "{total}");
    }

    #[test]
    fn nothing_above_the_level_is_no_polygon() {
        assert!(regions(&vec![vec![0.0; 5]; 5], 0.5).is_empty());
    }
}
