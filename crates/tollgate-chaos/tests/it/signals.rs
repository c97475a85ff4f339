//! A run that is interrupted stops everything that it has started.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::process::Command;
use tollgate_testkit::wait;

/// Stands for a node: it never becomes ready, so that the run waits for it.
const NODE: &str = "#!/bin/sh\necho $$ >> \"$(dirname \"$0\")/started\"\nexec sleep 600\n";

/// Nodes of a run.
const NODES: usize = 3;

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// All processes that a process has started and that are there.
fn children(of: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).unwrap();
    let lists = threads.map(|thread| lines(&thread.unwrap().path().join("children")));
    lists
        .flatten()
        .flat_map(|list| list.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// Returns true if a process runs. One that has ended may be a zombie.
fn runs(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z')
}

async fn interrupted_by(signal: Signal) {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("node");
    fs::write(&program, NODE).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let homes = folder.path().join("homes");
    fs::create_dir(&homes).unwrap();
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_tollgate-chaos"));
    chaos.arg("--program").arg(&program).env("TMPDIR", &homes);
    let mut chaos = chaos.stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    let id = chaos.id().unwrap();
    let started = folder.path().join("started");
    wait::until("all nodes to be started", || async {
        (lines(&started).len() == NODES).then_some(())
    })
    .await;
    let all = children(id);
    assert!(all.len() > NODES, "nodes, a database and a chain: {all:?}");
    kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
    let status = chaos.wait().await.unwrap();
    assert_eq!(status.code(), Some(130));
    wait::until("all processes to end", || async {
        (!all.iter().any(|process| runs(process))).then_some(())
    })
    .await;
    let left: Vec<_> = fs::read_dir(&homes).unwrap().map(|it| it.unwrap().file_name()).collect();
    let left = left.iter().filter(|name| name.to_string_lossy().starts_with("tollgate-chaos-"));
    assert_eq!(left.count(), 0, "its home is gone");
}

#[tokio::test]
async fn interrupted_run_exits_with_130_and_leaves_nothing_behind() {
    interrupted_by(Signal::INT).await;
}

#[tokio::test]
async fn terminated_run_exits_with_130_and_leaves_nothing_behind() {
    interrupted_by(Signal::TERM).await;
}
