use ebm_data::{Image, decode::read_image};
use roxmltree::Document;

use plotters::coord::ranged1d::Ranged as _;

use super::{density_map::MAX_POINTS, sheet::Panel, *};

/// p(y | x) of the first toy dataset: sin x and -sin x with weights 0.8 and 0.2 below 0, log-normal above.
fn toy(x: f64, y: f64) -> f64 {
    let normal =
        |z: f64, sigma: f64| (-0.5 * (z / sigma).powi(2)).exp() / (sigma * std::f64::consts::TAU.sqrt());
    if x < 0.0 {
        0.8 * normal(y - x.sin(), 0.075) + 0.2 * normal(y + x.sin(), 0.075)
    } else if y > -1.0 {
        normal((y + 1.0).ln(), 0.25) / (y + 1.0)
    } else {
        0.0
    }
}

fn density(columns: usize, rows: usize) -> Vec<Vec<f64>> {
    let at = |i: usize, n: usize, half: f64| half * (2.0 * i as f64 / (n - 1) as f64 - 1.0);
    (0..columns).map(|i| (0..rows).map(|j| toy(at(i, columns, 3.0), at(j, rows, 1.5))).collect()).collect()
}

fn panel<'a>(title: &'a str, density: &'a [Vec<f64>]) -> DensityPanel<'a> {
    DensityPanel { title, density, points: &[] }
}

fn maps<'a>(panels: &'a [DensityPanel<'a>]) -> DensityMaps<'a> {
    DensityMaps { x: -3.0..3.0, y: -1.5..1.5, names: ["x", "y"], panels }
}

/// Writes the figure, checks that the SVG is well-formed and has the PNG's size, and returns both.
fn drawn(figure: &impl Figure) -> (String, Image) {
    let dir = tempfile::tempdir().unwrap();
    let [svg, png] = write(figure, &dir.path().join("deep/v1.0")).unwrap();
    assert_eq!((svg.file_name(), png.file_name()), (Some("v1.0.svg".as_ref()), Some("v1.0.png".as_ref())));
    assert_eq!(std::fs::read_dir(dir.path().join("deep")).unwrap().count(), 2);
    let (image, size) = (read_image(&png).unwrap(), figure.sheet().unwrap().size);
    assert_eq!([image.width, image.height], size.map(|length| length as usize));
    let text = std::fs::read_to_string(&svg).unwrap();
    let document = Document::parse(&text).unwrap();
    let attribute = |name| document.root_element().attribute(name).unwrap().parse::<usize>().unwrap();
    assert_eq!((attribute("width"), attribute("height")), (image.width, image.height));
    (text, image)
}

/// Returns the pixel of a value of x and of y.
fn place(panel: &Panel, x: f64, y: f64) -> (i32, i32) {
    let [left, top, width, height] = panel.area;
    (panel.x.map(&x, (left, left + width)), panel.y.map(&y, (top + height, top)))
}

fn pixel(image: &Image, (x, y): (i32, i32)) -> [u8; 3] {
    let at = 3 * (y as usize * image.width + x as usize);
    image.pixels[at..at + 3].try_into().unwrap()
}

fn brightness(colour: [u8; 3]) -> u32 {
    colour.into_iter().map(u32::from).sum()
}

/// Counts the text elements that are `text`.
fn texts(document: &Document, text: &str) -> usize {
    let written =
        document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text());
    written.filter(|written| written.trim() == text).count()
}

fn refused(figure: &impl Figure, part: &str) {
    let dir = tempfile::tempdir().unwrap();
    let error = format!("{:#}", write(figure, &dir.path().join("figure")).unwrap_err());
    assert!(error.contains(part), "{part:?} is not in {error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn densities_are_dark_where_they_are_high() {
    let density = density(256, 256);
    let points: Vec<(f64, f64)> = (0..2000).map(|i| (f64::from(i) * 0.003 - 3.0, 1.3)).collect();
    let observed = DensityPanel { title: "with points", density: &density, points: &points };
    let panels = [panel("p < q & r", &density), observed, panel("three", &density)];
    let maps = maps(&panels);
    let (svg, image) = drawn(&maps);
    assert!((1780..=1800).contains(&image.width), "{}", image.width);
    let sheet = maps.sheet().unwrap();
    assert!((20_000..400_000).contains(&svg.len()), "{}", svg.len());
    assert_eq!(texts(&Document::parse(&svg).unwrap(), "p < q & r"), 1);
    for index in 0..3 {
        let colour = |x: f64, y: f64| pixel(&image, place(&sheet.panels[index], x, y));
        let minus_half_pi = -std::f64::consts::FRAC_PI_2;
        // The major component, the log-normal's mode, the minor component, a tail and no density at all.
        let places =
            [(minus_half_pi, -1.0), (1.5, -0.06), (minus_half_pi, 1.0), (1.5, 0.6), (minus_half_pi, 0.0)];
        let levels = places.map(|(x, y)| brightness(colour(x, y)));
        assert!(levels.windows(2).all(|pair| pair[0] + 30 < pair[1]), "{levels:?}");
        assert_eq!(colour(minus_half_pi, 0.0), [255; 3]);
    }
    // Dots in the second panel alone.
    let circles =
        Document::parse(&svg).unwrap().descendants().filter(|node| node.has_tag_name("circle")).count();
    assert_eq!(circles, MAX_POINTS);
}

#[test]
fn a_narrow_peak_leaves_the_rest_visible() {
    let plain = density(64, 64);
    let mut peaked = plain.clone();
    peaked[60][60] = 1e9;
    let at = |density: &[Vec<f64>]| {
        let panels = [panel("density", density)];
        let maps = maps(&panels);
        let (svg, image) = drawn(&maps);
        let sheet = maps.sheet().unwrap();
        (brightness(pixel(&image, place(&sheet.panels[0], 1.5, 0.0))), svg.len(), sheet.size)
    };
    let (without, with) = (at(&plain), at(&peaked));
    assert!(without.0.abs_diff(with.0) < 30, "{without:?} {with:?}");
    assert!(with.2[0] < 1800, "one panel does not fill the page");
}

#[test]
fn a_constant_density_can_be_drawn() {
    let flat = vec![vec![0.5; 8]; 8];
    let mut one = vec![vec![0.0; 64]; 64];
    one[3][3] = 1.0;
    for density in [flat, one] {
        drawn(&maps(&[panel("density", &density)]));
    }
}

#[test]
fn what_is_no_density_is_refused() {
    let good = density(8, 8);
    let with = |value: f64| {
        let mut bad = good.clone();
        bad[3][5] = value;
        bad
    };
    let mut ragged = good.clone();
    ragged[2].pop();
    refused(&maps(&[]), "0 panels");
    refused(&maps(&[panel("a", &[])]), "\"a\"");
    refused(&maps(&[panel("a", &good), panel("b", &ragged)]), "\"b\"");
    for value in [f64::NAN, f64::INFINITY, -0.1] {
        refused(&maps(&[panel("a", &with(value))]), "not finite");
    }
    refused(&maps(&[panel("a", &vec![vec![0.0; 4]; 4])]), "zero everywhere");
    let panels = [panel("a", &good)];
    refused(&DensityMaps { x: 3.0..3.0, ..maps(&panels) }, "range");
    refused(&DensityMaps { y: 0.0..f64::INFINITY, ..maps(&panels) }, "range");
    assert!(write(&maps(&panels), Path::new("/")).is_err());
}

#[test]
fn small_densities_have_room_for_their_decimals() {
    let size = |p: f64| {
        let density = vec![vec![p; 3]; 3];
        maps(&[panel("", &density)]).sheet().unwrap().size
    };
    // "0.8" and "0.0008": three more digits.
    assert!(size(1e-3)[0] > size(1.0)[0] + 40);
    assert_eq!(size(1.0)[1], size(1e-3)[1]);
}

fn row(label: &str, values: &[f64]) -> SeedRow {
    SeedRow { label: label.into(), values: values.to_vec() }
}

fn seed_plot(rows: &[SeedRow], logarithmic: bool) -> SeedPlot<'_> {
    SeedPlot { title: "Seeds", x_label: "KL divergence", rows, references: &[], logarithmic }
}

#[test]
fn every_seed_has_a_dot_and_every_row_a_mean() {
    let rows = [row("energy-based", &[0.025, 0.061, 0.064]), row("Gaussian", &[0.719, 0.74])];
    let references = [(0.69995, "best Gaussian".to_owned()), (0.7, "touches it".to_owned())];
    for logarithmic in [false, true] {
        let plot = SeedPlot { references: &references, ..seed_plot(&rows, logarithmic) };
        let (svg, image) = drawn(&plot);
        let sheet = plot.sheet().unwrap();
        let panel = &sheet.panels[0];
        let document = Document::parse(&svg).unwrap();
        let circles = document.descendants().filter(|node| node.has_tag_name("circle"));
        let dots = circles.map(|node| node.attribute("cx").unwrap().parse::<i32>().unwrap() / 2);
        for (dot, value) in dots.zip([0.025, 0.061, 0.064, 0.719, 0.74]) {
            assert!((dot - place(panel, value, 0.5).0).abs() <= 1, "{value}");
        }
        // The means 0.05 and 0.7295 have the colour of ink in the middle of their rows.
        for (mean, row) in [(0.05, 0.5), (0.7295, 1.5)] {
            assert!(brightness(pixel(&image, place(panel, mean, row))) < 120, "{mean}");
        }
        for label in ["energy-based", "Gaussian", "best Gaussian", "touches it", "Seeds"] {
            assert_eq!(texts(&document, label), 1, "{label}");
        }
    }
}

#[test]
fn a_credible_set_is_shaded_under_its_curve() {
    let grid: Vec<f64> = (0..401).map(|i| f64::from(i) / 200.0 - 1.0).collect();
    let at = |x: f64| grid.iter().map(|y| toy(x, *y)).collect::<Vec<f64>>();
    let curves = [("bimodal".to_owned(), at(-0.6)), ("skewed".to_owned(), at(0.5))];
    let centre = 0.6f64.sin();
    let regions = [[-centre - 0.12, -centre + 0.12], [centre - 0.1, centre + 0.1]];
    let marks = [(-centre, "mode".to_owned()), (0.0, "mean".to_owned())];
    let figure = DensityCurves {
        title: "x = -0.6",
        y_label: "y",
        grid: &grid,
        curves: &curves,
        regions: &regions,
        marks: &marks,
    };
    let (svg, image) = drawn(&figure);
    assert!(svg.len() < 25_000, "{}", svg.len());
    let sheet = figure.sheet().unwrap();
    let colour = |y: f64, p: f64| brightness(pixel(&image, place(&sheet.panels[0], y, p)));
    let [inside, above, between] =
        [colour(centre + 0.03, 0.5), colour(centre + 0.03, 2.0), colour(-0.35, 0.3)];
    assert!(inside < 740 && above == 765 && between == 765, "{inside} {above} {between}");
    assert!(colour(centre, toy(-0.6, centre)) < 400, "the curve passes its maximum");
    for (name, count) in [("bimodal", 1), ("skewed", 1), ("mode", 1), ("mean", 1)] {
        assert_eq!(texts(&Document::parse(&svg).unwrap(), name), count, "{name}");
    }

    let good = || DensityCurves { regions: &[], marks: &[], ..figure };
    refused(&DensityCurves { curves: &[], ..good() }, "range");
    refused(&DensityCurves { grid: &grid[..1], ..good() }, "two points");
    refused(&DensityCurves { grid: &[1.0, 0.5, 0.0], ..good() }, "range");
    refused(&DensityCurves { regions: &[[f64::NAN, 0.1]], ..good() }, "not finite");
    refused(&DensityCurves { marks: &[(f64::NAN, "lost".to_owned())], ..good() }, "not finite");
    let zero = [("flat".to_owned(), vec![0.0; 401])];
    refused(&DensityCurves { curves: &zero, ..good() }, "range");
}

#[test]
fn one_value_alone_is_a_plot() {
    for value in [0.0, 3.0, -2.0] {
        drawn(&seed_plot(&[row("only", &[value])], false));
    }
    drawn(&seed_plot(&[row("only", &[1e-4, 1e-4])], true));
}

#[test]
fn values_without_a_place_are_refused() {
    refused(&seed_plot(&[], false), "range");
    refused(&seed_plot(&[row("empty", &[]), row("a", &[1.0])], false), "not finite");
    refused(&seed_plot(&[row("a", &[1.0, f64::NAN])], false), "not finite");
    refused(&seed_plot(&[row("a", &[1.0, 0.0])], true), "range");
    let references = [(f64::INFINITY, "far".to_owned())];
    refused(&SeedPlot { references: &references, ..seed_plot(&[row("a", &[1.0])], false) }, "range");
    refused(&seed_plot(&[row(&"long ".repeat(60), &[1.0])], false), "no room");
}
