//! Reads what the system knows about this process.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use tollgate_metrics::ProcessMetrics;

/// Reads all of it; what the system does not tell has no value.
pub(super) fn read(metrics: &ProcessMetrics) {
    metrics.cpu_seconds_total.set_or_clear(Some(cpu_seconds()));
    metrics.resident_memory_bytes.set_or_clear(resident_bytes());
    let open = std::fs::read_dir("/proc/self/fd").map(Iterator::count);
    // One of them is the folder that is being read.
    metrics.open_fds.set_or_clear(open.ok().map(|open| float(open as u64).max(1.0) - 1.0));
    metrics.max_fds.set_or_clear(getrlimit(Resource::Nofile).current.map(float));
}

#[expect(clippy::cast_precision_loss, reason = "expositions are floating point")]
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn resident_bytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(float(kilobytes) * 1_024.0)
}

#[expect(clippy::cast_precision_loss, reason = "expositions are floating point")]
const fn float(count: u64) -> f64 {
    count as f64
}
