//! The density of two coordinates on a raster.

/// p of two coordinates on a grid of points in the plane.
#[derive(Clone, Debug, PartialEq)]
pub struct DensityMap {
    /// The point (x, y) in the first row and column …
    pub first: [f64; 2],
    /// … and the step (x, y) between points.
    pub step: [f64; 2],
    /// Points along each side.
    pub size: usize,
    /// The probability of each point's cell, in rows; the sum is 1.
    pub p: Vec<f64>,
}

impl DensityMap {
    /// The level that the smallest set of probability `mass` exceeds: the points with at least this p have
    /// `mass` or a little more together.
    pub fn level(&self, mass: f64) -> f64 {
        let mut falling = self.p.clone();
        falling.sort_by(|a, b| b.total_cmp(a));
        let mut sum = 0.0;
        let reached = falling.iter().find(|p| {
            sum += **p;
            sum >= mass
        });
        reached.or(falling.last()).copied().unwrap_or(0.0)
    }

    /// The area of that set, in the unit of x times that of y.
    pub fn area(&self, mass: f64) -> f64 {
        let level = self.level(mass);
        self.p.iter().filter(|p| **p >= level).count() as f64 * self.step[0] * self.step[1]
    }
}
