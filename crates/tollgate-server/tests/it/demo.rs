//! `tollgate demo`, by the real binary.

use tollgate_testkit::wait::until;

use crate::program::{Program, command, free_port, http_get};

#[test]
fn a_demo_ends_well_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = command();
    demo.args(["demo", "--intents", "20"]).env("TMPDIR", folder.path());
    let output = demo.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.ends_with("The chain agrees: each exactly once.\n"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_kept_serves_until_it_is_told_to_stop() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut demo = command();
    demo.args(["demo", "--intents", "20", "--keep", "--port", &port.to_string()]);
    let program = Program::start(demo.env("TMPDIR", folder.path()));
    program.line_with("Ctrl-C").await;
    let feed = until("the feed", || http_get(port, "/api/v1/tx/completions?after=0")).await;
    assert!(feed.contains("\"CONFIRMED\""), "{feed}");
    program.signal("INT");
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let told = ended.lines.join("\n");
    for words in ["each exactly once", &format!("http://127.0.0.1:{port}/docs"), "account     0x"] {
        assert!(told.contains(words), "{told}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demo_that_is_broken_off_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = command();
    demo.args(["demo", "--intents", "2000"]).env("TMPDIR", folder.path());
    let program = Program::start(&mut demo);
    program.line_with("Two nodes").await;
    program.signal("INT");
    let ended = program.end();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
