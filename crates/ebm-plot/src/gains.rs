//! Values with their errors in rows of panels, one panel for each thing that they may depend on.

use plotters::style::text_anchor::{HPos, VPos};

use super::axis::Axis;
use super::bitmap::label_width;
use super::colour::{AXIS, INK, SERIES};
use super::sheet::{Kind, Panel, Shape, Sheet, THIN, TICK_EM, room, text};
use super::{Error, Figure, Result};

/// Rows of panels that share their columns.
pub struct GainPlot<'a> {
    /// Shown above.
    pub title: &'a str,
    /// The names of the series, one to four.
    pub series: &'a [String],
    /// From above.
    pub rows: &'a [GainRow],
}

/// A row of panels with a common vertical axis.
pub struct GainRow {
    /// What the values are, with their unit.
    pub label: String,
    /// The same attributes and bins in every row.
    pub panels: Vec<GainPanel>,
}

/// The values by the bins of one attribute.
pub struct GainPanel {
    /// The attribute.
    pub name: String,
    /// Its bins' names.
    pub bins: Vec<String>,
    /// For each series a value for each bin, where there is one.
    pub values: Vec<Vec<Option<Measured>>>,
}

/// A value with its standard error.
#[derive(Clone, Copy)]
pub struct Measured {
    /// The value.
    pub value: f64,
    /// Its standard error; 0 where it is not known.
    pub error: f64,
}

const HEIGHT: i32 = 380;
const PANEL_GAP: i32 = 24;
/// The least width of a bin.
const BIN: f64 = 64.0;
/// Between the series of a bin.
const DODGE: f64 = 20.0;
/// Part of the axis left free beside the outermost value.
const MARGIN: f64 = 0.06;

impl GainRow {
    fn values(&self) -> impl Iterator<Item = Measured> {
        self.panels.iter().flat_map(|panel| panel.values.iter().flatten().copied().flatten())
    }

    /// With 0, the line between better and worse.
    fn axis(&self) -> Result<Axis> {
        let low = self.values().map(|m| m.value - m.error).fold(0.0, f64::min);
        let high = self.values().map(|m| m.value + m.error).fold(0.0, f64::max);
        let margin = MARGIN * if high > low { high - low } else { 1.0 };
        Axis::linear("", low - margin..high + margin, 6)
    }
}

impl GainPanel {
    /// The width in pixels, with room for every name.
    fn width(&self) -> Result<i32> {
        let mut widest = label_width(&self.name, TICK_EM)? / self.bins.len() as f64;
        for bin in &self.bins {
            widest = widest.max(label_width(bin, TICK_EM)?);
        }
        Ok((widest + 16.0).max(BIN).ceil() as i32 * self.bins.len() as i32)
    }

    fn shapes(&self, width: i32) -> Vec<Shape> {
        let bins = self.bins.len() as f64;
        let mut shapes = vec![Shape(Kind::Line(THIN), AXIS, vec![[0.0; 2], [bins, 0.0]])];
        let (dodge, middle) = (DODGE * bins / f64::from(width), (self.values.len() as f64 - 1.0) / 2.0);
        for (series, (values, colour)) in self.values.iter().zip(SERIES).enumerate() {
            for (i, measured) in values.iter().enumerate() {
                let Some(Measured { value, error }) = *measured else { continue };
                let x = i as f64 + 0.5 + dodge * (series as f64 - middle);
                shapes.push(Shape(Kind::Line(3), colour, vec![[x, value - error], [x, value + error]]));
                shapes.push(Shape(Kind::Dot(8), colour, vec![[x, value]]));
            }
        }
        shapes
    }
}

impl Figure for GainPlot<'_> {
    fn sheet(&self) -> Result<Sheet> {
        let Some(first) = self.rows.first() else { return Err(Error::Data("there is no row".into())) };
        let widths = first.panels.iter().map(GainPanel::width).collect::<Result<Vec<_>>>()?;
        let rooms = self.rows.iter().map(|row| room(&row.axis()?)).collect::<Result<Vec<_>>>()?;
        let left = 20 + rooms.into_iter().max().unwrap_or(0);
        let mut sheet = Sheet::new(left + widths.iter().map(|width| width + PANEL_GAP).sum::<i32>() + 16);
        let keys: Vec<_> = self.series.iter().map(String::as_str).zip(SERIES).collect();
        sheet.title(left, &format!("{} (bars: ± one standard error)", self.title), &keys)?;
        for (index, row) in self.rows.iter().enumerate() {
            let top = sheet.size[1] + if index == 0 { 80 } else { -30 };
            let above = |raised: i32| f64::from(top - raised);
            let at = [20.0, above(if index == 0 { 46 } else { 10 })];
            sheet.shapes.push(text(&row.label, at, TICK_EM, INK, (HPos::Left, VPos::Bottom)));
            let (mut left, mut y) = (left, row.axis()?);
            for (panel, &width) in row.panels.iter().zip(&widths) {
                if index == 0 {
                    let middle = [f64::from(left + width / 2), above(10)];
                    sheet.shapes.push(text(&panel.name, middle, TICK_EM, INK, (HPos::Center, VPos::Bottom)));
                }
                let x = Axis::names(&panel.bins);
                let x = if index + 1 == self.rows.len() { x } else { x.unlabelled() };
                let mut drawn = Panel::new([left, top, width, HEIGHT], x, y.clone(), [false, true]);
                drawn.shapes = panel.shapes(width);
                sheet.push(drawn);
                y = y.unlabelled();
                left += width + PANEL_GAP;
            }
        }
        Ok(sheet)
    }
}
