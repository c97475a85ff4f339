//! The password of a folder of keystores: from a file, or typed on a terminal without being shown.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tollgate_signer::read_key_file;
use zeroize::Zeroizing;

use crate::cli::output::{err, errln};
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct PasswordArgs {
    /// Read the password from this file. Without it, the password is asked for on the terminal.
    #[arg(long, env = "TOLLGATE_KEYSTORE_PASSWORD_FILE", value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl PasswordArgs {
    /// Reads the password. A new one is asked for twice.
    pub(super) fn read(&self, is_new: bool) -> Result<Zeroizing<String>, Failure> {
        let password = match &self.password_file {
            Some(file) => {
                let text = read_key_file(file)?;
                Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned())
            }
            None => {
                let typed = ask("Password: ")?;
                if is_new && *ask("Password again: ")? != *typed {
                    return Err("the passwords differ".into());
                }
                typed
            }
        };
        match password.trim().is_empty() {
            true => Err("the password is empty".into()),
            false => Ok(password),
        }
    }
}

/// Switches the echo of the terminal on again when dropped.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn begin() -> Result<Self, Failure> {
        let before = tcgetattr(std::io::stdin())?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.before);
    }
}

fn ask(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(
            "--password-file is needed: there is no terminal to ask for the password".into()
        );
    }
    err!("{prompt}");
    std::io::stderr().flush()?;
    let mut line = Zeroizing::new(String::with_capacity(1_024));
    {
        let _hidden = Hidden::begin()?;
        stdin.lock().read_line(&mut line)?;
    }
    errln!();
    Ok(Zeroizing::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}
