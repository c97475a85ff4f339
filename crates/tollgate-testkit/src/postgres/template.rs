//! A freshly initialised cluster, made once for each version and copied for each server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::directory::{base, locked};
use super::programs::Programs;

/// Puts a fresh cluster at `data`.
pub(super) fn copy(programs: &Programs, data: &Path) {
    let template = template(programs);
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto"]).arg(template).arg(data);
    check("cp", copy.output().unwrap());
}

fn template(programs: &Programs) -> PathBuf {
    let name = format!("template-{}", programs.version());
    let base = base();
    let template = base.join(&name);
    if template.exists() {
        return template;
    }
    let _making = locked(&base.join(format!("{name}.lock")));
    if !template.exists() {
        make(programs, &template);
    }
    template
}

/// Made beside its place and moved there when it is whole: a template that exists is complete.
fn make(programs: &Programs, template: &Path) {
    let parts = template.with_extension("parts");
    let _ = fs::remove_dir_all(&parts);
    fs::create_dir(&parts).unwrap();
    programs.hand_over(&parts);
    let cluster = parts.join("cluster");
    let mut initdb = programs.command("initdb");
    initdb.args(["--no-sync", "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]);
    // Small segments: less to copy.
    initdb.args(["--wal-segsize=1", "-D"]).arg(&cluster);
    check("initdb", initdb.output().unwrap());
    fs::rename(&cluster, template).unwrap();
    let _ = fs::remove_dir_all(&parts);
}

pub(super) fn check(what: &str, output: Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed: {errors}");
}
