//! Resources that a process, its children and the whole machine have used, by `/proc`.

use std::time::Duration;

/// Processor time of a process and its children, those that have ended included.
pub(crate) fn cpu(id: u32) -> Duration {
    let own = stat(id).map_or(0, |fields| ticks(&fields[11..15]));
    let children = children(id).into_iter();
    let live: u64 = children.filter_map(stat).map(|fields| ticks(&fields[11..13])).sum();
    time(own + live)
}

/// Processor time of everything on this machine.
pub(crate) fn cpu_of_machine() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let line = text.lines().next().unwrap();
    let fields: Vec<u64> = line.split_whitespace().skip(1).map(|n| n.parse().unwrap()).collect();
    // User, nice and system time, and that of interrupts; neither idle time nor waiting.
    time([0, 1, 2, 5, 6].iter().map(|place| fields[*place]).sum())
}

/// Resident memory of a process, in megabytes.
pub(crate) fn memory_mb(id: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).map_or(0, |pages| pages.parse().unwrap());
    (pages * rustix::param::page_size() as u64) as f64 / 1e6
}

fn children(id: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

/// The fields after the name, which may hold spaces.
fn stat(id: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn ticks(fields: &[String]) -> u64 {
    fields.iter().map(|field| field.parse::<u64>().unwrap_or(0)).sum()
}

fn time(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}
