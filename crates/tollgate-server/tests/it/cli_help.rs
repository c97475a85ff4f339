//! Help, suggestions, colour and the scripts for shells.

use std::process::Command;

use crate::program::{Ran, command};

/// The script for a shell.
fn script(shell: &str) -> String {
    let ran = Ran::of(command().args(["shell-completions", shell]));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{shell}");
    ran.out
}

#[test]
fn mistyped_command_is_answered_with_the_one_that_was_meant() {
    let ran = Ran::of(command().args(["submiter", "list"]));
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.err.contains("similar") && ran.err.contains("'submitter'"), "{ran:?}");
    let ran = Ran::of(command().args(["tx", "list", "--stat", "STUCK"]));
    assert!(ran.err.contains("'--state'"), "{ran:?}");
}

#[test]
fn help_is_in_colour_where_it_is_wanted_only() {
    let plain = Ran::of(command().arg("--help"));
    assert!(!plain.out.contains('\u{1b}'), "{plain:?}");
    let coloured = Ran::of(command().arg("--help").env("CLICOLOR_FORCE", "1"));
    assert!(coloured.out.contains('\u{1b}'), "{coloured:?}");
    let wrong = Ran::of(command().arg("--nonsense").env("CLICOLOR_FORCE", "1"));
    assert!(wrong.err.contains('\u{1b}') && wrong.out.is_empty(), "{wrong:?}");
    let switched_off = ["NO_COLOR", "CLICOLOR_FORCE"].map(|name| (name, "1"));
    let off = Ran::of(command().arg("--help").envs(switched_off));
    assert!(!off.out.contains('\u{1b}'), "{off:?}");
}

#[test]
fn bash_completes_commands_and_options_with_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.bash");
    std::fs::write(&file, script("bash")).unwrap();
    let completed = |words: &str, last: usize| {
        let text = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={last}; cur=${{COMP_WORDS[{last}]}}; \
             _tollgate tollgate \"$cur\" \"${{COMP_WORDS[{last} - 1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            file.display()
        );
        let output = Command::new("bash").args(["-c", &text]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(completed("tollgate tx sim", 2), "simulate\n");
    assert_eq!(completed("tollgate submitter nonces rec", 3), "recyclable\n");
    assert_eq!(completed("tollgate tx list --cs", 3), "--csv\n");
}

#[test]
fn there_is_a_script_for_each_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = script(shell);
        assert!(script.contains("simulate") && script.contains("dead-letters"), "{shell}");
    }
    assert_eq!(Ran::of(command().args(["shell-completions", "csh"])).code, Some(2));
}
