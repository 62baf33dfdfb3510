//! The section and the file of a detector's stages.

use anyhow::Result;
use ebm_eval::Table;
use ebm_nn::device::Precision;

use super::{Report, number, records, times};
use crate::compare::Series;
use crate::stages::{NAMES, Stages, Trained};
use crate::work::MILLISECONDS;

/// The columns of the table.
const COLUMNS: &str = "ms ms_median | 100*of_all";

impl Stages {
    /// The stages and all together, with their names.
    fn rows(&self) -> impl Iterator<Item = (&'static str, &Series)> {
        NAMES.into_iter().zip(&self.series).chain([("all", &self.all)])
    }

    /// How much of the shortest time of all the shortest of a stage is.
    fn share(&self, series: &Series) -> f64 {
        series.minimum() / self.all.minimum()
    }
}

impl Report {
    /// The section of the page; empty where there is no detector.
    pub(super) fn stages_section(&self, csv: &str) -> Result<String> {
        let Some((trained, stages)) = &self.stages else { return Ok(String::new()) };
        let marker = records::marker(&Self::stages_csv_name(csv), &self.command, "stage", COLUMNS);
        let table = marker + &table(stages)?.render();
        Ok(format!("## Stages of a detector\n\n{}\n\n{table}\n", text(trained, stages)))
    }

    /// The name of the file of the stages' figures, beside that of the works, `csv`.
    pub fn stages_csv_name(csv: &str) -> String {
        format!("{}_stages.csv", csv.trim_end_matches(".csv"))
    }

    /// The figures behind the table of a detector's stages, where there is one.
    ///
    /// # Errors
    /// Never; the records have their columns.
    pub fn stages_csv(&self) -> Result<Option<Vec<u8>>> {
        let Some((_, stages)) = &self.stages else { return Ok(None) };
        let mut file = csv::Writer::from_writer(Vec::new());
        let header = "date,device,threads,rounds,images,candidates,boxes,stage,ms,ms_median,of_all";
        file.write_record(header.split(','))?;
        let counts = [self.threads, self.rounds, stages.images].map(|count| count.to_string());
        for (name, series) in stages.rows() {
            let [minimum, median] = [series.minimum(), series.median()].map(MILLISECONDS.of_seconds);
            let number = |value: f64| format!("{value:.6}");
            let mut record = vec![self.date.clone(), self.device_name()];
            record.extend(counts.clone());
            record.extend([stages.candidates, stages.boxes].map(number));
            record.push(name.to_owned());
            record.extend([minimum, median, stages.share(series)].map(number));
            file.write_record(&record)?;
        }
        Ok(Some(file.into_inner()?))
    }
}

fn text(Trained { detector, head, precision, .. }: &Trained, stages: &Stages) -> String {
    let narrow = if *precision == Precision::Bf16 { ", which multiplies bf16," } else { "" };
    format!(
        "`{}` with `{}`{narrow} on {} images, one by one, read and resized before: {} candidates and {} refined boxes an image.\n\
         Milliseconds an image, the mean over the images: minimum (median) of the rounds.",
        detector.display(),
        head.display(),
        stages.images,
        number(stages.candidates),
        number(stages.boxes)
    )
}

fn table(stages: &Stages) -> Result<Table> {
    let mut table = Table::new(["stage", "ms", "of all"]);
    for (name, series) in stages.rows() {
        let share = format!("{:.0} %", 100.0 * stages.share(series));
        table.push([name.to_owned(), times(MILLISECONDS, series), share])?;
    }
    Ok(table)
}
