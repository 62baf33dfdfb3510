//! The page, and the same as JSON.

use anyhow::Result;
use ebm_eval::Table;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::json;

use super::compare::{Measured, Series};
use super::cost::Cost;
use super::peak::Peak;
use super::peer::Versions;
use super::stages::{Stages, Trained};
use super::work::{Unit, Work};
use crate::machine::Machine;

/// A measured work.
pub struct Row {
    /// What was done.
    pub work: Work,
    /// What it takes at least.
    pub cost: Cost,
    /// How long it took.
    pub measured: Measured,
}

/// The versions of what was measured.
#[derive(Clone, Copy)]
pub struct Software {
    /// The program's.
    pub ebm: &'static str,
    /// candle's.
    pub candle: &'static str,
    /// The compiler's.
    pub rustc: &'static str,
}

/// What bounds a work, and how close ours is to it.
struct Limit {
    gflop: f64,
    megabytes: f64,
    floor_ms: f64,
    name: &'static str,
    /// Ours, in GFLOP/s.
    gflops: f64,
    of_peak: f64,
}

impl Row {
    fn limit(&self, peak: &Peak) -> Limit {
        let Self { cost, measured, .. } = self;
        let (arithmetic, memory) =
            (cost.operations / (peak.gflops * 1e9), cost.bytes / (peak.gigabytes * 1e9));
        let gflops = cost.operations / measured.ours.minimum() / 1e9;
        Limit {
            gflop: cost.operations / 1e9,
            megabytes: cost.bytes / 1e6,
            floor_ms: arithmetic.max(memory) * 1e3,
            name: if arithmetic >= memory { "arithmetic" } else { "memory" },
            gflops,
            of_peak: gflops / peak.gflops,
        }
    }
}

/// All that a run found out.
pub struct Report {
    /// The day, in UTC.
    pub date: String,
    /// The command line.
    pub command: String,
    /// What it was measured on.
    pub machine: Machine,
    /// What was measured.
    pub software: Software,
    /// One thread first, all threads last.
    pub peaks: Vec<Peak>,
    /// Missing where there was no PyTorch.
    pub peer: Option<Versions>,
    /// Threads of each process.
    pub threads: usize,
    /// Rounds that counted.
    pub rounds: usize,
    /// Whether the sizes were tiny.
    pub smoke: bool,
    /// Where both sides computed.
    pub device: String,
    /// The works, in the order of the table.
    pub rows: Vec<Row>,
    /// A user's own detector and what its stages took, where there was one.
    pub stages: Option<(Trained, Stages)>,
}

/// A cell without a value.
const NONE: &str = "–";

impl Report {
    /// The page as markdown; `csv` is where [`Self::csv`] goes, from the page's folder.
    ///
    /// # Errors
    /// Never; the tables' rows have their columns.
    pub fn page(&self, csv: &str) -> Result<String> {
        let mut page = format!(
            "# Performance\n\nWritten by `{}` on {} (UTC).{}\n\n",
            self.command,
            self.date,
            if self.smoke { " **A smoke test with tiny sizes: the times mean nothing.**" } else { "" }
        );
        if !self.rows.is_empty() {
            page += &self.works(csv)?;
        }
        page += &self.stages_section(csv)?;
        page += &format!("## Machine and versions\n\n<!-- table: none -->\n{}", self.setting()?.render());
        Ok(page)
    }

    /// Everything about the works, of which there is one at least.
    fn works(&self, csv: &str) -> Result<String> {
        let marker = |columns: &str| records::marker(csv, &self.command, "work", columns);
        let mut page = format!(
            "Ours and PyTorch on the same work, {} threads each, one process for each side and form; prediction also by ONNX Runtime and\n\
             OpenVINO where they are. In each of {} rounds every process does the work once, in turn. Times: minimum (median). The\n\
             ratio is ours / the fastest peer, of minima and of medians.\n\n",
            self.threads, self.rounds
        );
        if self.peer.is_none() {
            page += "**There was no PyTorch on this machine: no peer, no ratios.**\n\n";
        }
        page += &(marker(records::TIMES) + &self.times()?.render());
        let forms = marker(&records::forms(&self.form_names())) + &self.forms()?.render();
        page += &format!("\n{}\n\n## Every form\n\n{forms}\n", self.verdict());
        page += &notes(&self.rows);
        let limits = marker(records::LIMITS) + &self.limits()?.render();
        page += &format!("## Limits\n\n{}\n\n{limits}\n", self.limits_text());
        Ok(page)
    }

    fn times(&self) -> Result<Table> {
        let header = [
            "work",
            "unit",
            "ours",
            "best peer",
            "form",
            "ratio",
            "of medians",
            "goal",
            "met",
            "MiB ours",
            "peer",
        ];
        let mut table = Table::new(header);
        for Row { work, measured, .. } in &self.rows {
            let best = measured.best();
            table.push([
                work.title.to_owned(),
                work.unit.name.to_owned(),
                time(work, &measured.ours),
                best.map_or(NONE.to_owned(), |best| time(work, &best.series)),
                best.map_or(NONE.to_owned(), |best| best.form.clone()),
                ratio(measured.ratio()),
                ratio(measured.ratio_of_medians()),
                work.goal.text.to_owned(),
                met(work, measured),
                memory(measured.ours.peak_mib),
                best.map_or(NONE.to_owned(), |best| memory(best.series.peak_mib)),
            ])?;
        }
        Ok(table)
    }

    /// How many goals are met, and what the memory column is.
    fn verdict(&self) -> String {
        let ratios =
            || self.rows.iter().filter_map(|row| Some((row.measured.ratio()?, row.work.goal.at_most)));
        let goals = match ratios().count() {
            0 => String::new(),
            all => {
                format!("{} of {all} goals are met. ", ratios().filter(|(ratio, goal)| ratio <= goal).count())
            }
        };
        let import = self.peer.as_ref().and_then(|peer| peer.import_mib);
        let import =
            import.map_or(String::new(), |mib| format!(" PyTorch's own libraries are {mib} MiB of it."));
        format!("{goals}MiB: the largest resident size of the process after its set-up.{import}")
    }

    /// The peers' forms, each once.
    fn form_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for peer in self.rows.iter().flat_map(|row| &row.measured.peers) {
            if !names.contains(&peer.form.as_str()) {
                names.push(&peer.form);
            }
        }
        names
    }

    fn forms(&self) -> Result<Table> {
        let names = self.form_names();
        let mut table = Table::new(["work", "unit", "ours"].into_iter().chain(names.iter().copied()));
        for Row { work, measured, .. } in &self.rows {
            let mut cells =
                vec![work.title.to_owned(), work.unit.name.to_owned(), time(work, &measured.ours)];
            cells.extend(names.iter().map(|name| {
                let peer = measured.peers.iter().find(|peer| peer.form == *name);
                peer.map_or(NONE.to_owned(), |peer| time(work, &peer.series))
            }));
            table.push(cells)?;
        }
        Ok(table)
    }

    fn limits_text(&self) -> String {
        let peaks: Vec<String> = self.peaks.iter().map(peak).collect();
        format!(
            "The machine's peak, measured by this run: {}.\nA work's floor is the larger of its arithmetic at that rate and its \
             parameters, input and output at that bandwidth;\nthe arithmetic is that of the plain algorithm, and Winograd's form needs \
             up to a quarter of it, so a time can be below its floor.",
            peaks.join("; ")
        )
    }

    fn limits(&self) -> Result<Table> {
        let header = ["work", "GFLOP", "MB", "floor, ms", "limit", "ours, GFLOP/s", "of the peak"];
        let mut table = Table::new(header);
        let Some(peak) = self.peaks.last() else { return Ok(table) };
        for row in &self.rows {
            let limit = row.limit(peak);
            table.push([
                row.work.title.to_owned(),
                number(limit.gflop),
                number(limit.megabytes),
                number(limit.floor_ms),
                limit.name.to_owned(),
                number(limit.gflops),
                format!("{:.0} %", 100.0 * limit.of_peak),
            ])?;
        }
        Ok(table)
    }

    fn setting(&self) -> Result<Table> {
        let machine = &self.machine;
        let mut table = Table::new(["what", "value"]);
        let cores = machine.cores.to_string();
        let threads = self.threads.to_string();
        let mut rows = vec![
            ("processor", machine.cpu.as_str()),
            ("cores", &cores),
            ("caches", &machine.caches),
            ("memory", &machine.memory),
            ("instructions", &machine.instructions),
            ("system", &machine.system),
            ("computed on", &self.device),
            ("ebm", self.software.ebm),
            ("candle", self.software.candle),
            ("rustc", self.software.rustc),
        ];
        match &self.peer {
            Some(peer) => {
                rows.extend([
                    ("Python", peer.python.as_str()),
                    ("torch", &peer.torch),
                    ("torch's instructions", &peer.instructions),
                ]);
                rows.extend(peer.runtimes.iter().map(|(name, version)| (name.as_str(), version.as_str())));
            }
            None => rows.push(("Python, torch", "none")),
        }
        rows.push(("threads of each side", &threads));
        for (what, value) in rows {
            table.push([what, value])?;
        }
        Ok(table)
    }
}

/// Three significant digits, more only before the point.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        value if value >= 99.95 => 0,
        value if value >= 9.995 => 1,
        value if value >= 0.9995 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn time(work: &Work, series: &Series) -> String {
    times(work.unit, series)
}

fn times(unit: Unit, series: &Series) -> String {
    let [minimum, median] = [series.minimum(), series.median()].map(|t| number((unit.of_seconds)(t)));
    format!("{minimum} ({median})")
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or(NONE.to_owned(), |ratio| format!("{ratio:.2}"))
}

/// The ratio over the goal, where it is missed.
fn off_goal(work: &Work, measured: &Measured) -> Option<f64> {
    measured.ratio().map(|ratio| ratio / work.goal.at_most).filter(|off| *off > 1.0)
}

/// Whether the goal is met, and where it is not, how far off.
fn met(work: &Work, measured: &Measured) -> String {
    match (measured.ratio(), off_goal(work, measured)) {
        (None, _) => NONE.to_owned(),
        (_, None) => "yes".to_owned(),
        (_, Some(off)) => format!("no, {off:.2} × the goal"),
    }
}

fn memory(mib: Option<u64>) -> String {
    mib.map_or(NONE.to_owned(), |mib| mib.to_string())
}

fn peak(peak: &Peak) -> String {
    format!("{}: {} GFLOP/s in f32, {} GB/s", peak.of, number(peak.gflops), number(peak.gigabytes))
}

/// What did not work, one line each.
fn notes(rows: &[Row]) -> String {
    let lines = rows
        .iter()
        .flat_map(|row| row.measured.notes.iter().map(|note| format!("- {}: {note}\n", row.work.title)));
    let lines: String = lines.collect();
    if lines.is_empty() { String::new() } else { format!("{lines}\n") }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Software { ebm, candle, rustc } = self.software;
        let versions = json!({ "ebm": ebm, "candle": candle, "rustc": rustc, "peer": self.peer });
        let mut report = serializer.serialize_struct("Report", 11)?;
        report.serialize_field("date", &self.date)?;
        report.serialize_field("command_line", &self.command)?;
        report.serialize_field("machine", &self.machine)?;
        report.serialize_field("peaks", &self.peaks)?;
        report.serialize_field("versions", &versions)?;
        report.serialize_field("threads", &self.threads)?;
        report.serialize_field("rounds", &self.rounds)?;
        report.serialize_field("smoke", &self.smoke)?;
        report.serialize_field("device", &self.device)?;
        report.serialize_field("rows", &self.rows)?;
        report.serialize_field("stages", &self.stages.as_ref().map(|(_, stages)| stages))?;
        report.end()
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { work, cost, measured } = self;
        let ratio = measured.ratio();
        json!({
            "name": work.name,
            "title": work.title,
            "sizes": work.task,
            "operations": cost.operations,
            "bytes": cost.bytes,
            "goal": work.goal.at_most,
            "ratio": ratio,
            "ratio_of_medians": measured.ratio_of_medians(),
            "met": ratio.map(|ratio| ratio <= work.goal.at_most),
            "best": measured.best().map(|peer| &peer.form),
            "times": measured,
        })
        .serialize(serializer)
    }
}

mod records;
mod stages;
#[cfg(test)]
mod tests;
