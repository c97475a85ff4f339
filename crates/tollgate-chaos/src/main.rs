//! Runs chaos: `tollgate-chaos --minutes 10 --seed 7 [--only KIND,…] [--endpoints 1] [--svg FILE] [--program PATH]`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tollgate_chaos::plan::Kind;
use tollgate_chaos::{Options, run};

const USAGE: &str =
    "tollgate-chaos [--minutes M] [--seed N] [--only KIND,...] [--endpoints 1] [--svg FILE] [--program PATH]
  KIND is the name of a fault, as in reports: \"flipped receipts\".
  With --endpoints 1 each node knows only the endpoint that gives wrong answers in faults of one
  endpoint: a configuration that trusts it, and that a run must catch.
  MINUTES=M and SEED=N do as well. The program is looked for beside this one if it is not named.";

const MINUTES: f64 = 2.0;
const SEED: u64 = 1;

/// The exit code of a run that was interrupted.
const STOPPED: u8 = 130;

struct Asked {
    options: Options,
    svg: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let asked = match understand(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(what) => {
            eprintln!("{what}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let report = tokio::select! {
        report = run(&asked.options) => report,
        // What runs ends with the runtime, before the process does: nodes, database and chain are
        // killed, and their folders removed.
        () = told_to_stop() => {
            eprintln!("stopped before its end: no verdict");
            return ExitCode::from(STOPPED);
        }
    };
    print!("{report}");
    if let Some(file) = asked.svg
        && let Err(error) = std::fs::write(&file, report.svg())
    {
        eprintln!("{}: {error}", file.display());
        return ExitCode::FAILURE;
    }
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Waits for an interrupt (Ctrl-C) or SIGTERM. Where signals can't be heard, it waits for ever.
async fn told_to_stop() {
    let heard = |kind| async move {
        match signal(kind) {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = heard(SignalKind::interrupt()) => {}
        () = heard(SignalKind::terminate()) => {}
    }
}

/// `--seed 7`, `--seed=7` and `SEED=7` are the same.
fn understand(words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let (mut minutes, mut seed, mut svg, mut program) = (MINUTES, SEED, None, None);
    let (mut only, mut is_trusting) = (Vec::new(), false);
    let mut words = words;
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => {
                let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
                (word, value)
            }
        };
        let wrong = || format!("{name}: {value} is not a number");
        match name.trim_start_matches('-').to_lowercase().as_str() {
            "minutes" => minutes = value.parse().map_err(|_| wrong())?,
            "seed" => seed = value.parse().map_err(|_| wrong())?,
            "endpoints" => match value.as_str() {
                "1" => is_trusting = true,
                "2" => is_trusting = false,
                _ => return Err(format!("--endpoints is 1 or 2, and not {value}")),
            },
            "only" => {
                only = value.split(',').map(kind_named).collect::<Result<_, _>>()?;
            }
            "svg" => svg = Some(PathBuf::from(value)),
            "program" => program = Some(PathBuf::from(value)),
            _ => return Err(format!("{name} is not known")),
        }
    }
    let program = program.map_or_else(beside, Ok)?;
    if !program.exists() {
        return Err(format!("{} is not there: build tollgate first", program.display()));
    }
    let length = Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())?;
    Ok(Asked { options: Options { only, is_trusting, ..Options::new(program, seed, length) }, svg })
}

fn kind_named(name: &str) -> Result<Kind, String> {
    let kind = Kind::ALL.iter().find(|kind| kind.name() == name.trim());
    kind.copied().ok_or_else(|| {
        let all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        format!("no fault is called {name:?}; there are: {}", all.join(", "))
    })
}

fn beside() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(here.with_file_name(format!("tollgate{}", std::env::consts::EXE_SUFFIX)))
}
