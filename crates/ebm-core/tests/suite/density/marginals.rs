//! Product grids of two and three coordinates.

use candle_core::{DType, Device, Tensor};
use ebm_core::{EnergyModel, Error, Grid, GridDensity, Result};

use crate::zoo::{Function, assert_close, gaussian};

fn marginals(model: &impl EnergyModel<Features = ()>, batch: usize, grids: &[Grid]) -> Vec<Vec<GridDensity>> {
    model.bind(&(), batch).with(DType::F64, &Device::Cpu).marginals(grids).unwrap()
}

#[test]
fn independent_coordinates_have_their_own_densities() {
    let grids = [
        Grid::new(-3.0, 4.0, 41).unwrap(),
        Grid::new(-4.0, 4.0, 37).unwrap(),
        Grid::new(-6.0, 8.0, 33).unwrap(),
    ];
    let model = gaussian(&[0.5, 0.0, 1.0], &[0.5, 0.6, 1.0], 2.0);
    // 50 061 points: more than one pass takes.
    let of_x = &marginals(&model, 2, &grids);
    assert_eq!((of_x.len(), of_x[0].len(), &of_x[0]), (2, 3, &of_x[1]));
    for (d, (mean, sigma)) in [(0.5, 0.5), (0.0, 0.6), (1.0, 1.0)].into_iter().enumerate() {
        let p = &of_x[0][d];
        assert_close(&[p.log_z(), p.mean(), p.variance().sqrt()], &[2.0, mean, sigma], 1e-6);
        let want: Vec<f64> =
            grids[d].points().into_iter().map(|y| super::log_normal_density(y, mean, sigma)).collect();
        assert_close(p.log_prob_values(), &want, 1e-6);
    }
}

#[test]
fn correlated_coordinates_have_the_marginals_of_the_closed_form() {
    // Unit variances and the correlation 0.8: f = −(a² − 1.6 a b + b²) / 0.72, Z = 2π √0.36.
    let model = Function::new(|y: &Tensor| -> Result<Tensor> {
        let (a, b) = (y.narrow(2, 0, 1)?, y.narrow(2, 1, 1)?);
        let square = ((a.sqr()? + b.sqr()?)? - ((a * b)? * 1.6)?)?;
        Ok((square / -0.72)?.squeeze(2)?)
    });
    let grid = Grid::new(-7.0, 7.0, 141).unwrap();
    let of_x = marginals(&model, 1, &[grid, grid]);
    for p in &of_x[0] {
        assert_close(&[p.log_z(), p.variance()], &[(0.6 * std::f64::consts::TAU).ln(), 1.0], 1e-9);
    }
}

#[test]
fn one_coordinate_is_the_grid_density() {
    let grid = Grid::new(-3.0, 3.0, 51).unwrap();
    let model = gaussian(&[0.2], &[0.5], 1e4);
    let of_x = marginals(&model, 1, &[grid]);
    let direct = model.bind(&(), 1).with(DType::F64, &Device::Cpu).grid(&grid).unwrap();
    assert_close(of_x[0][0].log_prob_values(), direct[0].log_prob_values(), 1e-10);
    assert_close(&[of_x[0][0].log_z()], &[direct[0].log_z()], 1e-14);
}

#[test]
fn bad_inputs_have_typed_errors() {
    let grid = Grid::new(-1.0, 1.0, 3).unwrap();
    let model = gaussian(&[0.0], &[1.0], 0.0);
    let refuse = |batch, grids: &[Grid]| {
        model.bind(&(), batch).with(DType::F64, &Device::Cpu).marginals(grids).unwrap_err()
    };
    for grids in [&[][..], &[grid; 4], &[Grid::new(0.0, 1.0, 1 << 40).unwrap(); 2]] {
        assert!(matches!(refuse(1, grids), Error::Setting { name: "grids", .. }));
    }
    assert!(matches!(refuse(0, &[grid]), Error::Setting { name: "batch", .. }));
    let root = Function::new(|y: &Tensor| Ok(y.sum(2)?.sqrt()?));
    let error = root.bind(&(), 1).with(DType::F64, &Device::Cpu).marginals(&[grid, grid]).unwrap_err();
    assert!(matches!(&error, Error::NonFiniteScore { x: 0, y, .. } if y == &[-1.0, -1.0]), "{error}");
    let zero = Function::new(|y: &Tensor| Ok((y.sum(2)? * 0.0)?.log()?));
    let error = zero.bind(&(), 1).with(DType::F64, &Device::Cpu).marginals(&[grid, grid]).unwrap_err();
    assert!(matches!(error, Error::NoMass(0)), "{error}");
}
