//! Describes the program, the machine and the date, for the record of a run.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use ebm_train::Environment;

const UNKNOWN: &str = "unknown";

/// Version of the program; a build with debug assertions is marked, since it is slower than a release.
const EBM: &str = if cfg!(debug_assertions) {
    concat!(env!("CARGO_PKG_VERSION"), " (debug build: slower than a release)")
} else {
    env!("CARGO_PKG_VERSION")
};

/// Names and versions of candle, the compiler and the target.
const BUILT: [(&str, Option<&str>); 3] = [
    ("candle", option_env!("EBM_CANDLE_VERSION")),
    ("rustc", option_env!("EBM_RUSTC_VERSION")),
    ("target", option_env!("EBM_TARGET")),
];

/// Text that `ebm --version` prints after the name.
pub static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let features = if ebm_ops::device::HAS_CUDA { "cuda" } else { "none" };
    let own = [
        ("commit", option_env!("EBM_GIT_COMMIT")),
        ("features", Some(features)),
        ("SIMD", Some(instructions())),
    ];
    let line = |text: String, (name, value): (&str, Option<&str>)| {
        format!("{text}\n{name:<9} {}", value.unwrap_or(UNKNOWN))
    };
    own.into_iter().chain(BUILT).fold(EBM.to_owned(), line)
});

/// Describes this program, this machine and the `device` that it computes on, for the record of a run.
pub fn environment(device: &str) -> Environment {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let system = value(&read("/etc/os-release"), '=', "PRETTY_NAME");
    let system = system.as_deref().map_or(std::env::consts::OS, |name| name.trim_matches('"'));
    let (kernel, Machine { cpu, cores }) = (read("/proc/sys/kernel/osrelease"), Machine::here());
    let machine = [
        ("device", device.to_owned()),
        ("threads", candle_core::utils::get_num_threads().to_string()),
        ("cores", cores.to_string()),
        ("cpu", cpu),
        ("memory", memory(&read("/proc/meminfo")).unwrap_or_else(|| UNKNOWN.to_owned())),
        ("instructions", instructions().to_owned()),
        ("system", format!("{system} {} {}", kernel.trim(), std::env::consts::ARCH)),
    ];
    let built = BUILT.map(|(name, version)| (name.to_owned(), version.unwrap_or(UNKNOWN).to_owned()));
    Environment {
        git_commit: option_env!("EBM_GIT_COMMIT").map(str::to_owned),
        versions: BTreeMap::from_iter([("ebm".to_owned(), EBM.to_owned())].into_iter().chain(built)),
        machine: machine.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// Name of the processor, where Linux tells it, and number of logical cores that this process may use.
pub struct Machine {
    cpu: String,
    cores: usize,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
        let cpu = value(&read_to_string("/proc/cpuinfo").unwrap_or_default(), ':', "model name");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cpu: cpu.unwrap_or_else(|| UNKNOWN.to_owned()), cores }
    }

    /// Returns the processor and the number of cores as a text, for a column of a table.
    pub fn short(&self) -> String {
        format!("{}, {} cores", self.cpu, self.cores)
    }
}

/// Returns the first value of `key` in a text with lines `key SEPARATOR value`.
fn value(text: &str, separator: char, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

fn memory(meminfo: &str) -> Option<String> {
    let kib: f64 = value(meminfo, ':', "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

/// Returns the newest vector instructions that the kernels use on this processor. `EBM_SIMD` in the environment can
/// limit them.
fn instructions() -> &'static str {
    ebm_ops::instruction_sets().map_or(UNKNOWN, |used| used.newest)
}

/// Returns today's date in UTC as year-month-day.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    date(seconds / (24 * 3600))
}

/// Returns the Gregorian date that is `days` days after 1970-01-01.
fn date(days: u64) -> String {
    // Years are counted from the first of March of the year 0, so that a leap day is the last day of its year.
    let (cycle, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, every five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    format!("{}-{month:02}-{day:02}", 400 * cycle + year)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        let cases = [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11016, "2000-02-29"),
            (20_778, "2026-11-21"),
        ];
        for (days, expected) in cases {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn values_are_found() {
        let text = "processor\t: 0\nmodel name\t: A: B @ 2\nmodel name\t: C\n";
        assert_eq!(value(text, ':', "model name").as_deref(), Some("A: B @ 2"));
        assert_eq!(value(text, ':', "model"), None);
        assert_eq!(memory("MemTotal:       25165824 kB\n").as_deref(), Some("24.0 GiB"));
        assert_eq!(memory("MemTotal: lots\n"), None);
    }

    #[test]
    fn this_machine_has_cores() {
        assert!(Machine::here().cores > 0);
    }
}
