//! The figures of the page as a CSV file, a record for each work, and the markers by which
//! `xtask/docs_tables.py` compares the page with it.

use anyhow::Result;

use super::{Report, Row, off_goal};

/// The columns of the first table.
pub const TIMES: &str = "=unit | ours ours_median | peer peer_median | =form | ratio | ratio_of_medians | =goal | off_goal \
                         | ours_mib | peer_mib";
/// Those of the limits.
pub const LIMITS: &str = "gflop | megabytes | floor_ms | =limit | gflops | 100*of_peak";

/// The columns of the table of all forms.
pub fn forms(names: &[&str]) -> String {
    let forms: Vec<String> = names.iter().map(|name| format!(" | {name} {name}_median")).collect();
    format!("=unit | ours ours_median{}", forms.concat())
}

/// What stands above a table, whose first column is the file's `rows`.
pub fn marker(csv: &str, command: &str, rows: &str, columns: &str) -> String {
    format!("<!-- table: {csv}\nby: {command}\nrows: {rows}\ncolumns: {columns}\n-->\n")
}

impl Report {
    /// The figures behind all tables. Times are in the unit of the work; what was not measured is empty.
    ///
    /// # Errors
    /// Never; the records have their columns.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let forms = self.form_names();
        let mut header: Vec<String> =
            "date,device,threads,rounds,work,unit,goal,form,limit,ours,ours_median,peer,peer_median,ratio,\
             ratio_of_medians,off_goal,ours_mib,peer_mib,gflop,megabytes,floor_ms,gflops,of_peak"
                .split(',')
                .map(str::to_owned)
                .collect();
        header.extend(forms.iter().flat_map(|form| [(*form).to_owned(), format!("{form}_median")]));
        let mut file = csv::Writer::from_writer(Vec::new());
        file.write_record(&header)?;
        for row in &self.rows {
            let mut record = self.words(row);
            let numbers = self.numbers(row, &forms);
            record
                .extend(numbers.into_iter().map(|value| value.map_or(String::new(), |v| format!("{v:.6}"))));
            file.write_record(&record)?;
        }
        Ok(file.into_inner()?)
    }

    pub(super) fn device_name(&self) -> String {
        match self.device.as_str() {
            "cpu" => self.machine.short(),
            gpu => gpu.to_owned(),
        }
    }

    fn words(&self, row: &Row) -> Vec<String> {
        let best = row.measured.best().map_or(String::new(), |best| best.form.clone());
        let limit = self.peaks.last().map_or("", |peak| row.limit(peak).name).to_owned();
        let (threads, rounds) = (self.threads.to_string(), self.rounds.to_string());
        let of_work = [row.work.title, row.work.unit.name, row.work.goal.text].map(str::to_owned);
        [vec![self.date.clone(), self.device_name(), threads, rounds], of_work.to_vec(), vec![best, limit]]
            .concat()
    }

    fn numbers(&self, row: &Row, forms: &[&str]) -> Vec<Option<f64>> {
        let Row { work, measured, .. } = row;
        let unit = |seconds: f64| Some((work.unit.of_seconds)(seconds));
        let best = measured.best().map(|best| &best.series);
        let limit = self.peaks.last().map(|peak| row.limit(peak));
        let limit = |value: fn(&super::Limit) -> f64| limit.as_ref().map(value);
        let mut numbers = vec![
            unit(measured.ours.minimum()),
            unit(measured.ours.median()),
            best.and_then(|best| unit(best.minimum())),
            best.and_then(|best| unit(best.median())),
            measured.ratio(),
            measured.ratio_of_medians(),
            off_goal(work, measured),
            measured.ours.peak_mib.map(|mib| mib as f64),
            best.and_then(|best| best.peak_mib).map(|mib| mib as f64),
            limit(|l| l.gflop),
            limit(|l| l.megabytes),
            limit(|l| l.floor_ms),
            limit(|l| l.gflops),
            limit(|l| l.of_peak),
        ];
        for form in forms {
            let peer = measured.peers.iter().find(|peer| peer.form == *form).map(|peer| &peer.series);
            numbers.extend([
                peer.and_then(|series| unit(series.minimum())),
                peer.and_then(|series| unit(series.median())),
            ]);
        }
        numbers
    }
}
