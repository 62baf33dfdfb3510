//! From the rotation matrix of a head to yaw, pitch and roll.

/// A matrix by rows.
pub(super) type Matrix = [[f64; 3]; 3];

/// How far a product may be from the identity, and a determinant from 1.
const TOLERANCE: f64 = 1e-3;

/// Fails, with the offending number, unless `matrix` is orthogonal with determinant 1.
pub(super) fn check_rotation(matrix: &Matrix) -> Result<(), String> {
    for (i, a) in matrix.iter().enumerate() {
        for (j, b) in matrix.iter().enumerate() {
            let product = dot(a, b);
            let wanted = if i == j { 1. } else { 0. };
            if differ(product, wanted) {
                let (i, j) = (i + 1, j + 1);
                return Err(format!("rows {i} and {j} have the product {product} instead of {wanted}"));
            }
        }
    }
    let [[a, b, c], [d, e, f], [g, h, i]] = *matrix;
    let determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
    if differ(determinant, 1.) {
        return Err(format!("the determinant is {determinant} instead of 1"));
    }
    Ok(())
}

/// NaN differs from everything.
fn differ(found: f64, wanted: f64) -> bool {
    let error = (found - wanted).abs();
    error.is_nan() || error > TOLERANCE
}

/// Yaw, pitch and roll in degrees of the matrix that a pose file holds, by FSA-Net's formulas.
///
/// With R the transpose of `matrix`: yaw = −atan2(−R₂₀, √(R₂₁² + R₂₂²)), pitch = atan2(R₂₁, R₂₂) and
/// roll = −atan2(R₁₀, R₀₀), indices from 0. So R = R_z(−roll) · R_y(−yaw) · R_x(pitch).
pub(super) fn angles(matrix: &Matrix) -> [f64; 3] {
    let [[r00, r10, r20], [_, _, r21], [_, _, r22]] = *matrix;
    let yaw = -f64::atan2(-r20, r21.hypot(r22));
    let pitch = f64::atan2(r21, r22);
    let roll = -f64::atan2(r10, r00);
    [yaw, pitch, roll].map(f64::to_degrees)
}

/// The product of a matrix and a column.
pub(super) fn apply(matrix: &Matrix, point: &[f64; 3]) -> [f64; 3] {
    matrix.map(|row| dot(&row, point))
}

fn dot(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multiply(a: &Matrix, b: &Matrix) -> Matrix {
        let b = transpose(b);
        a.map(|row| b.map(|column| dot(&row, &column)))
    }

    fn transpose(matrix: &Matrix) -> Matrix {
        [0, 1, 2].map(|column| matrix.map(|row| row[column]))
    }

    /// The pose file's matrix of known angles in degrees.
    fn matrix_of(yaw: f64, pitch: f64, roll: f64) -> Matrix {
        let (x, y, z) = (pitch.to_radians(), -yaw.to_radians(), -roll.to_radians());
        let about_x = [[1., 0., 0.], [0., x.cos(), -x.sin()], [0., x.sin(), x.cos()]];
        let about_y = [[y.cos(), 0., y.sin()], [0., 1., 0.], [-y.sin(), 0., y.cos()]];
        let about_z = [[z.cos(), -z.sin(), 0.], [z.sin(), z.cos(), 0.], [0., 0., 1.]];
        transpose(&multiply(&about_z, &multiply(&about_y, &about_x)))
    }

    #[test]
    fn known_angles_come_back() {
        let steps = |limit: f64| (-4..=4).map(move |step| limit * f64::from(step) / 4.);
        for yaw in steps(89.) {
            for pitch in steps(179.) {
                for roll in steps(179.) {
                    let matrix = matrix_of(yaw, pitch, roll);
                    check_rotation(&matrix).unwrap();
                    for (found, wanted) in angles(&matrix).into_iter().zip([yaw, pitch, roll]) {
                        assert!((found - wanted).abs() < 1e-9, "{yaw} {pitch} {roll}: {found}");
                    }
                }
            }
        }
    }

    #[test]
    fn signs_follow_the_published_formulas() {
        // Entries of the file, not transposed: [0][1] is R₁₀, [0][2] is R₂₀, [1][2] is R₂₁.
        let (sin, cos) = (0.5, 0.75f64.sqrt());
        let cases = [
            ([[cos, sin, 0.], [-sin, cos, 0.], [0., 0., 1.]], [0., 0., -30.]),
            ([[cos, 0., sin], [0., 1., 0.], [-sin, 0., cos]], [30., 0., 0.]),
            ([[1., 0., 0.], [0., cos, sin], [0., -sin, cos]], [0., 30., 0.]),
        ];
        for (matrix, wanted) in cases {
            check_rotation(&matrix).unwrap();
            for (found, wanted) in angles(&matrix).into_iter().zip(wanted) {
                assert!((found - wanted).abs() < 1e-12, "{matrix:?}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn what_is_no_rotation_is_said() {
        let good = matrix_of(10., 20., 30.);
        let with = |row: usize, column: usize, change: &dyn Fn(f64) -> f64| {
            let mut matrix = good;
            matrix[row][column] = change(matrix[row][column]);
            check_rotation(&matrix)
        };
        assert!(with(1, 2, &|entry| entry + 4e-4).is_ok());
        assert!(with(1, 2, &|entry| entry + 1e-2).is_err());
        assert!(with(0, 0, &|_| f64::NAN).unwrap_err().contains("NaN"));
        assert!(with(2, 1, &|_| f64::INFINITY).is_err());
        assert!(check_rotation(&[[0.; 3]; 3]).unwrap_err().contains("rows 1 and 1"));
        let scaled = good.map(|row| row.map(|entry| 1.001 * entry));
        assert!(check_rotation(&scaled).is_err());
        let mirrored = good.map(|[a, b, c]| [a, b, -c]);
        assert!(check_rotation(&mirrored).unwrap_err().contains("determinant is -"));
    }
}
