//! Describes the machine that the figures were measured on.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::bed::Bed;
use crate::stats::median;

/// Writes of the disk's measurement.
const SYNCS: usize = 200;

/// One sentence about the machine, the programs and the day.
pub(crate) async fn describe(bed: &Bed) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let kilobytes: f64 = memory.trim_end_matches(" kB").parse().unwrap_or(0.0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let anvil = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools/bin/anvil");
    let anvil = said(Command::new(anvil).arg("--version")).unwrap_or_else(|| "no anvil".to_owned());
    let tollgate = said(Command::new(&bed.tollgate).arg("--version")).unwrap_or_default();
    format!(
        "Measured on {}: {cores} cores ({processor}), {:.0} GB of memory, Linux {}, PostgreSQL {} with fsync on a disk \
         with {:.1} ms per `fdatasync`, {anvil}, {tollgate}; load generator, service, database and chain on the same \
         machine.",
        said(Command::new("date").arg("+%-d %B %Y")).unwrap_or_default(),
        kilobytes / 1e6,
        kernel.trim(),
        bed.postgres_version().await,
        sync_ms(&bed.folder().join("synced")),
    )
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The first line of what a program says.
fn said(command: &mut Command) -> Option<String> {
    let output = command.env("LC_ALL", "C").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}

/// The median time of a durable write of 8 KiB at the end of a file.
fn sync_ms(path: &Path) -> f64 {
    let mut file = File::create(path).unwrap();
    let times = (0..SYNCS).map(|_| {
        let start = Instant::now();
        file.write_all(&[1; 8_192]).unwrap();
        file.sync_data().unwrap();
        start.elapsed().as_secs_f64() * 1e3
    });
    median(times.collect()).unwrap()
}
