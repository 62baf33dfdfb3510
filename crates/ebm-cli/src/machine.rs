//! The machine that figures are measured on, and the day.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine, as far as its system tells.
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Logical cores that this process may use.
    pub cores: usize,
    /// Installed memory.
    pub memory: String,
    /// Vector instructions.
    pub instructions: String,
    /// Operating system and architecture.
    pub system: String,
}

const UNKNOWN: &str = "unknown";

impl Machine {
    /// Asks Linux; elsewhere most is unknown.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
        let name = value(&read("/etc/os-release"), '=', "PRETTY_NAME");
        let name =
            name.map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned());
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: known(value(&read("/proc/cpuinfo"), ':', "model name")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: known(memory(&read("/proc/meminfo"))),
            instructions: instructions(),
            system: format!("{name} {} {}", kernel.trim(), std::env::consts::ARCH),
        }
    }

    /// Processor and cores, for a column of a table.
    pub fn short(&self) -> String {
        format!("{}, {} cores", self.cpu, self.cores)
    }
}

/// The first value of `key` in lines `key SEPARATOR value`.
fn value(text: &str, separator: char, key: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

fn memory(meminfo: &str) -> Option<String> {
    let kib: f64 = value(meminfo, ':', "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{:.1} GiB", kib / f64::from(1 << 20)))
}

/// The vector instructions of this processor that matter here, found at run time.
///
/// Behind them, what the kernels are held to, where `EBM_SIMD` in the environment says so.
pub fn instructions() -> String {
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("AVX-512F", std::arch::is_x86_feature_detected!("avx512f")),
        ("AVX-512 VNNI", std::arch::is_x86_feature_detected!("avx512vnni")),
        ("AVX2", std::arch::is_x86_feature_detected!("avx2")),
        ("FMA", std::arch::is_x86_feature_detected!("fma")),
        ("SSE4.2", std::arch::is_x86_feature_detected!("sse4.2")),
    ];
    #[cfg(target_arch = "aarch64")]
    let found = [
        ("NEON", std::arch::is_aarch64_feature_detected!("neon")),
        ("SVE", std::arch::is_aarch64_feature_detected!("sve")),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found: [(&str, bool); 0] = [];
    let names: Vec<&str> = found.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    let found = if names.is_empty() { UNKNOWN.to_owned() } else { names.join(", ") };
    match ebm_ops::instruction_sets() {
        Ok(used) if used.is_limited => format!("{found}; held to {}", used.newest),
        _ => found,
    }
}

/// Today in UTC, year-month-day.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    date(seconds / (24 * 3600))
}

/// The date of a day since 1970-01-01 in the Gregorian calendar.
fn date(mut days: u64) -> String {
    let leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    let mut year = 1970;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if days < length {
            break;
        }
        days -= length;
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
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
