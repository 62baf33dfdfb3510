use super::*;

/// p(y | x) of the first toy dataset: sin x and -sin x with weights 0.8 and 0.2 below 0, log-normal above.
fn toy(x: f64, y: f64) -> f64 {
    let normal =
        |z: f64, sigma: f64| (-0.5 * (z / sigma).powi(2)).exp() / (sigma * std::f64::consts::TAU.sqrt());
    match x < 0.0 {
        true => 0.8 * normal(y - x.sin(), 0.075) + 0.2 * normal(y + x.sin(), 0.075),
        false if y > -1.0 => normal((y + 1.0).ln(), 0.25) / (y + 1.0),
        false => 0.0,
    }
}

fn grid(columns: usize, rows: usize, p: impl Fn(f64, f64) -> f64) -> Vec<Vec<f64>> {
    let at = |i: usize, n: usize, half: f64| half * (2.0 * i as f64 / (n - 1) as f64 - 1.0);
    (0..columns).map(|i| (0..rows).map(|j| p(at(i, columns, 3.0), at(j, rows, 1.5))).collect()).collect()
}

#[test]
fn sample() {
    let truth = grid(256, 256, toy);
    let gaussian = grid(256, 256, |x, y| {
        let (m, s) =
            if x < 0.0 { (0.6 * x.sin(), (0.0056 + 0.64 * x.sin().powi(2)).sqrt()) } else { (0.0317, 0.262) };
        (-0.5 * ((y - m) / s).powi(2)).exp() / (s * std::f64::consts::TAU.sqrt())
    });
    let points: Vec<_> = (0..2000)
        .map(|i| {
            let x = (i as f64 * 0.618034).fract() * 6.0 - 3.0;
            (
                x,
                if x < 0. {
                    x.sin()
                        + 0.075 * ((i as f64 * 0.7548).fract() + (i as f64 * 0.5698).fract() * 2. - 1.5) * 1.7
                } else {
                    ((i as f64 * 0.7548).fract() + (i as f64 * 0.5698).fract() - 1.0) * 0.8
                },
            )
        })
        .collect();
    let panels = [
        DensityPanel { title: "True density", density: &truth, points: &points },
        DensityPanel { title: "Gaussian", density: &gaussian, points: &[] },
        DensityPanel { title: "Energy-based model", density: &truth, points: &[] },
    ];
    let t = std::time::Instant::now();
    let maps = DensityMaps { x: -3.0..3.0, y: -1.5..1.5, panels: &panels };
    write(&maps, Path::new("/tmp/h3/figure2")).unwrap();
    println!("{:?}", t.elapsed());
    let rows = [
        SeedRow { label: "EBM, ML-IS".into(), values: vec![0.025, 0.061, 0.064, 0.04] },
        SeedRow { label: "EBM, NCE".into(), values: vec![0.035, 0.066] },
        SeedRow { label: "Gaussian".into(), values: vec![0.719, 0.74, 0.729, 0.725, 0.731] },
    ];
    let refs = [(0.69995, "best Gaussian".to_string()), (2.11883, "uniform".to_string())];
    for (log, name) in [(true, "seeds_log"), (false, "seeds_linear")] {
        let plot = SeedPlot {
            title: "Distance to the true density over seeds",
            x_label: "KL(truth || model), nats",
            rows: &rows,
            references: &refs,
            logarithmic: log,
        };
        write(&plot, &Path::new("/tmp/h3").join(name)).unwrap();
    }
}
