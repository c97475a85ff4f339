//! `tollgate explain`.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use tollgate_evm::{Overrides, RpcAnswer, explain, explain_lines};

use crate::failure::Failure;

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// The node's error message. Without it, JSON lines {code?, status?, message} are read from stdin.
    message: Option<String>,
    /// The JSON-RPC error code.
    #[arg(long, allow_hyphen_values = true)]
    code: Option<i64>,
    /// The HTTP status.
    #[arg(long)]
    status: Option<u16>,
}

pub(super) fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let Some(message) = &args.message else {
        let mut output = BufWriter::new(io::stdout().lock());
        explain_lines(&mut io::stdin().lock(), &mut output, &Overrides::default())?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let answer = RpcAnswer { code: args.code, status: args.status, message, data: None };
    let explained = explain(&answer);
    println!("class   {}", explained.class);
    println!("action  {}", explained.action);
    println!("sent?   {}", if explained.possibly_sent { "possibly" } else { "no" });
    println!("why     {}", explained.why);
    Ok(ExitCode::SUCCESS)
}
