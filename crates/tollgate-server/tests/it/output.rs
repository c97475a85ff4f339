//! Output that nobody reads, and databases that commands don't make.

use std::path::Path;
use std::process::Stdio;

use crate::program::{Ran, command};

/// Runs a command in a folder whose stdout is a pipe that nobody reads.
fn unread(folder: &Path, args: &[&str]) -> Ran {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut run = command();
    run.args(args).current_dir(folder).stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
    let output = run.spawn().unwrap().wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    Ran { code: output.status.code(), out: String::new(), err }
}

#[test]
fn command_whose_output_nobody_reads_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let database = ["--database-url", "sqlite:t.db"];
    let key = ["api-key", "new", "--name", "x", "--role", "read", "--quiet"];
    let backup = ["backup", "--to", "copy"];
    std::fs::write(folder.path().join("password"), "secret").unwrap();
    for args in [
        &["migrate", database[0], database[1]][..],
        &[&key[..], &database].concat(),
        &["api-key", "list", database[0], database[1]],
        &[&backup[..], &database].concat(),
        &["restore", "--from", "copy", "--database-url", "sqlite:restored.db"],
        &["alert", "list", database[0], database[1]],
        &["explain", "nonce too low"],
        &["config", "example"],
        &["openapi"],
        &["shell-completions", "bash"],
        &["keys", "new", "keystore", "--password-file", "password"],
        &["keys", "list", "keystore", "--json"],
        &["--help"],
    ] {
        let ran = unread(folder.path(), args);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}");
    }
    let refused = unread(folder.path(), &["config", "check", "--json"]);
    assert_eq!((refused.code, refused.err.as_str()), (Some(1), ""), "{refused:?}");
}

#[test]
fn demo_whose_output_nobody_reads_plays_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let ran = unread(folder.path(), &["demo", "--intents", "20"]);
    assert!(ran.code == Some(0) && !ran.err.contains("panicked"), "{ran:?}");
}

#[test]
fn output_that_can_not_be_written_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command().args(["explain", "nonce too low"]).stdout(full).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.starts_with("tollgate: standard output: No space left"), "{err}");
}

#[test]
fn database_is_made_by_migrate_and_nodes_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("t.toml"),
        "retention.finished_after = \"24h\"\nretention.mode = \"drop\"\n",
    )
    .unwrap();
    for args in [
        &["api-key", "list"][..],
        &["api-key", "new", "--name", "x", "--role", "read"],
        &["api-key", "revoke", "abcdefghijkl"],
        &["api-key", "rotate", "abcdefghijkl"],
        &["alert", "list"],
        &["events", "dead-letters", "list"],
        &["events", "dead-letters", "replay"],
        &["events", "replay", "--from", "1"],
        &["retention", "run", "--config", "t.toml"],
    ] {
        let ran = Ran::of(command().args(args).current_dir(folder.path()));
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{args:?}: {ran:?}");
        let why = "there is no database tollgate.db: give --config or --database-url";
        assert!(ran.err.contains(why), "{args:?}: {ran:?}");
        assert!(!folder.path().join("tollgate.db").exists(), "{args:?}");
    }
}
