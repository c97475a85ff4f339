//! The command line.

mod access;
mod alerting;
mod audit;
mod backup;
mod bench;
mod completions;
mod config;
mod demo;
mod dev;
mod devchain;
mod doctor;
mod events;
mod explain;
mod health;
mod help_examples;
mod keys;
mod logging;
mod node;
mod node_list;
mod output;
mod pool;
mod remote;
mod retention;
mod shell_completions;
mod submitter;
mod table;
mod tx;
mod units;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tollgate_model::secret::masked;

use crate::config::{DatabaseFlags, Purpose, load};
use crate::database::Database;
use crate::failure::Failure;
use logging::log;
use output::{errln, outln};

/// A transaction manager for EVM chains.
#[derive(Parser)]
#[command(name = "tollgate", version = crate::features::version())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put load on a running node and check the outcome on the chain.
    Bench(bench::BenchArgs),
    /// Run two nodes and a dev chain, kill one node while it works, and check the outcome on the chain.
    Demo(demo::DemoArgs),
    /// Run a node on loopback with a dev chain (or --rpc-url) and funded accounts.
    Dev(dev::DevArgs),
    /// Run a node.
    Serve(node::ServeArgs),
    /// Create, show, follow and change transactions of a running node.
    Tx(tx::TxArgs),
    /// List, show and change the account pools of a running node.
    Pool(pool::PoolArgs),
    /// List, show and change the submitters of a running node.
    Submitter(submitter::SubmitterArgs),
    /// Read the audit log of a running node.
    Audit(audit::AuditArgs),
    /// Print the feed of completions of a running node.
    Completions(completions::CompletionsArgs),
    /// Follow the events of a running node, and work with the receiver of events.
    Events(events::EventsArgs),
    /// List the nodes that share the database.
    Nodes(node_list::NodesArgs),
    /// Ask a running node whether it is ready; ends with 0 or 1.
    Health(health::HealthArgs),
    /// Run a dev chain alone.
    Devchain(devchain::DevchainArgs),
    /// Say why an account makes no progress, and which transaction would free it. Needs RPC endpoints alone.
    Doctor(doctor::DoctorArgs),
    /// Explain how an RPC node's answer to a send is classified, and what follows.
    Explain(explain::ExplainArgs),
    /// Print the OpenAPI document.
    Openapi,
    /// List alerts, and try their sinks.
    Alert(alerting::AlertArgs),
    /// Apply the missing migrations to a database.
    Migrate(DatabaseFlags),
    /// Make, list, revoke and rotate the API keys in a database.
    ApiKey(access::ApiKeyArgs),
    /// Make, import and list keys in a folder of encrypted keystores.
    Keys(keys::KeysArgs),
    /// Copy a SQLite database into a backup file while nodes run.
    Backup(backup::BackupArgs),
    /// Make a database of a backup, with every account paused.
    Restore(backup::RestoreArgs),
    /// Remove finished transactions from a database.
    Retention(retention::RetentionArgs),
    /// Check, show and document the configuration.
    Config(config::ConfigArgs),
    /// Print a script with which bash, zsh, fish and others complete commands and options.
    ShellCompletions(shell_completions::ShellCompletionsArgs),
}

/// The command line, with examples in the help of each command.
fn command() -> clap::Command {
    help_examples::with_examples(Cli::command())
}

/// Runs the command that was asked for.
pub(crate) fn run() -> ExitCode {
    let parsed = command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return print_usage_error(&error),
    };
    let done = match cli.command {
        Command::Alert(args) => alerting::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Dev(args) => dev::run(args),
        Command::Serve(args) => node::serve(args),
        Command::Tx(args) => tx::run(args),
        Command::Pool(args) => pool::run(args),
        Command::Submitter(args) => submitter::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Events(args) => events::run(args),
        Command::Nodes(args) => node_list::run(args),
        Command::Health(args) => health::run(args),
        Command::Devchain(args) => devchain::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Openapi => openapi(),
        Command::Migrate(flags) => migrate(flags),
        Command::ApiKey(args) => access::run(args),
        Command::Keys(args) => keys::run(args),
        Command::Backup(args) => backup::backup(args),
        Command::Restore(args) => backup::restore(args),
        Command::Retention(args) => retention::run(args),
        Command::Config(args) => config::run(args),
        Command::ShellCompletions(args) => shell_completions::run(&args),
    };
    logging::flush();
    match done.and_then(|code| Ok(output::check().map(|()| code)?)) {
        Ok(code) => code,
        // The reader of the output has closed it.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line for each error.
            for line in masked(&error.to_string()).lines() {
                errln!("tollgate: {line}");
            }
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints what is wrong with the command line, or the help; in colour on a terminal. A private key among the
/// arguments is masked.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    let text = error.render();
    let is_error = error.use_stderr();
    let is_terminal =
        if is_error { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
    let text = match wants_colour(is_terminal, |name| std::env::var_os(name)) {
        true => text.ansi().to_string(),
        false => text.to_string(),
    };
    let text = masked(&text);
    // Nobody may be reading.
    let _ = match is_error {
        true => std::io::stderr().write_all(text.as_bytes()),
        false => std::io::stdout().write_all(text.as_bytes()),
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Colour is for terminals. `NO_COLOR` switches it off there, `CLICOLOR_FORCE` on elsewhere.
fn wants_colour(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let is_dumb = variable("TERM").is_some_and(|term| term == "dumb");
    if is_set("NO_COLOR") {
        return false;
    }
    is_set("CLICOLOR_FORCE") || (is_terminal && !is_dumb)
}

/// Prints the document that a node serves at `/openapi.json`.
fn openapi() -> Result<ExitCode, Failure> {
    std::io::stdout().lock().write_all(tollgate_server::openapi().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn migrate(flags: DatabaseFlags) -> Result<ExitCode, Failure> {
    let settings = load(flags.into_flags(), Purpose::Database)?.settings;
    let applied = runtime()?.block_on(Database::new(&settings.database).migrate())?;
    outln!("{applied} migrations applied; the schema is up to date");
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_for_terminals_unless_it_is_switched_off() {
        let wants = |is_terminal: bool, set: &[(&str, &str)]| {
            wants_colour(is_terminal, |name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert!(wants(true, &[]) && wants(true, &[("TERM", "xterm"), ("NO_COLOR", "")]));
        assert!(!wants(true, &[("NO_COLOR", "1")]) && !wants(true, &[("TERM", "dumb")]));
        assert!(!wants(false, &[]) && wants(false, &[("CLICOLOR_FORCE", "1")]));
    }
}
