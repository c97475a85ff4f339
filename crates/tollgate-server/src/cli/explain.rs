//! `tollgate explain`.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use tollgate_evm::{Overrides, RpcAnswer, explain, explain_lines};
use tollgate_model::answer::action_for;
use tollgate_model::hindrance::own_sentence;

use crate::cli::output::outln;
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
    // No node said it: the attempt that it speaks of was sent.
    if let Some(own) = own_sentence(message) {
        outln!("class   {}", own.class);
        outln!("action  {}", action_for(own.class).name());
        outln!("sent?   possibly");
        outln!("why     Tollgate's own words, no node's: {}", own.meaning);
        outln!("then    Tollgate {}", own.response);
        return Ok(ExitCode::SUCCESS);
    }
    let answer = RpcAnswer { code: args.code, status: args.status, message, data: None };
    let explained = explain(&answer);
    outln!("class   {}", explained.class);
    outln!("action  {}", explained.action);
    outln!("sent?   {}", if explained.possibly_sent { "possibly" } else { "no" });
    outln!("why     {}", explained.why);
    Ok(ExitCode::SUCCESS)
}
