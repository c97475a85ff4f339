//! Each command of the help: its arguments, and what it prints.

/// The arguments of a command, and what it must print. Words in braces are filled in by [`Place`](super::Place).
pub(super) enum Row {
    /// Ends by itself, with 0.
    Ends(&'static str, &'static str),
    /// Ends by itself, with 1: there is nothing to do.
    Refuses(&'static str, &'static str),
    /// Runs until SIGINT, and then ends with 0.
    Stays(&'static str, &'static str),
    /// Prints what happens until it is ended.
    Follows(&'static str, &'static str),
}

use Row::{Ends, Follows, Refuses, Stays};

/// A run, or several, for every command.
pub(super) const ROWS: &[(&str, &[Row])] = &[
    ("alert list", &[Ends("--config {receivers}", "LEVEL")]),
    ("alert test", &[Ends("ops --config {receivers}", "was taken")]),
    ("api-key list", &[Ends("--database-url {migrated}", "ROLES")]),
    ("api-key new", &[Ends("--name x --role read --database-url {migrated}", "tg_live_")]),
    ("api-key revoke", &[Ends("{key}", "")]),
    ("api-key rotate", &[Ends("{key} --quiet", "tg_live_")]),
    ("audit list", &[Ends("--url {node}", "ACTION")]),
    ("backup", &[Ends("--database-url {migrated} --to {copy}", "transactions")]),
    ("bench", &[Ends("--url {node} --count 5 --wait accepted --json", "\"accepted\"")]),
    ("completions", &[Ends("--url {node}", "CONFIRMED")]),
    (
        "config check",
        &[Ends(
            "--no-auth --database-url {sqlite} --rpc-url {rpc} --private-key-file {keys}",
            "lease.duration",
        )],
    ),
    ("config example", &[Ends("", "[lease]")]),
    ("demo", &[Ends("--intents 20", "The chain agrees")]),
    ("dev", &[Stays("--listen 127.0.0.1:{port}", "API ")]),
    ("devchain", &[Stays("--port 0", "JSON-RPC ")]),
    ("doctor", &[Ends("{from} --rpc-url {rpc}", "healthy")]),
    ("events dead-letters list", &[Ends("--config {receivers}", "")]),
    ("events dead-letters replay", &[Refuses("--config {receivers}", "no such dead letter")]),
    ("events follow", &[Follows("--after 0 --url {node}", "TxConfirmed")]),
    ("events listen", &[Follows("--after 0 --forward-to {rpc} --url {node}", "TxConfirmed")]),
    ("events replay", &[Refuses("--from 0 --config {receivers}", "no node has delivered")]),
    ("events test", &[Ends("--config {receivers}", "taken")]),
    ("explain", &[Ends("nonce_too_low", "find_receipts"), Ends("", "\"class\"")]),
    ("health", &[Ends("--url {node}", "ready"), Ends("--live --url {node}", "alive")]),
    ("keys import", &[Ends("{copy} --key-file {keys} --password-file {password}", "0x")]),
    ("keys list", &[Ends("{folder}", "ACCOUNT")]),
    ("keys new", &[Ends("{copy} --password-file {password}", "0x")]),
    (
        "migrate",
        &[
            Ends("--database-url {sqlite}", "up to date"),
            Ends("--database-url {postgres}", "up to date"),
            Ends("--config {file}", "up to date"),
        ],
    ),
    ("nodes", &[Ends("--url {node}", "alive")]),
    ("openapi", &[Ends("", "\"openapi\"")]),
    ("pool list", &[Ends("--url {node}", "POOL")]),
    ("pool remove", &[Ends("{pool} --url {node}", "removed")]),
    ("pool set", &[Ends("{pool} {from} {to} --url {node}", "available")]),
    ("pool show", &[Ends("{pool} --url {node}", "MEMBER")]),
    ("restore", &[Ends("--from {backup} --database-url {sqlite}", "accounts")]),
    ("retention run", &[Ends("--dry-run --config {file}", "would be removed")]),
    (
        "serve",
        &[
            Stays(
                "--no-auth --listen 127.0.0.1:{port} --database-url {sqlite} --rpc-url {rpc} \
                 --private-key-file {keys}",
                "listening",
            ),
            Stays(
                "--no-auth --listen 127.0.0.1:{port} --database-url {postgres} --rpc-url {rpc} \
                 --private-key-file {keys}",
                "listening",
            ),
        ],
    ),
    (
        "shell-completions",
        &[
            Ends("bash", "_tollgate()"),
            Ends("elvish", "tollgate;tx"),
            Ends("fish", "complete -c tollgate"),
            Ends("powershell", "Register-ArgumentCompleter"),
            Ends("zsh", "#compdef tollgate"),
        ],
    ),
    ("submitter add", &[Ends("caller --address {new} --url {node}", "caller")]),
    ("submitter advance", &[Ends("{doubted} 100 --reason x --url {node}", "was next")]),
    (
        "submitter fill",
        &[Ends(
            "{from} --first 0 --last 0 --with placeholder --reason x --url {node}",
            "handed back",
        )],
    ),
    ("submitter list", &[Ends("--url {node}", "ADDRESS")]),
    ("submitter mode", &[Ends("{to} strict --reason x --url {node}", "strict")]),
    ("submitter nonces list", &[Ends("{holder} --url {node}", "NONCE")]),
    (
        "submitter nonces recyclable",
        &[Ends("{holder} {reserved} --reason x --url {node}", "RECYCLABLE")],
    ),
    ("submitter nonces reserve", &[Ends("{holder} --url {node}", "owner token")]),
    ("submitter nonces used", &[Ends("{holder} {reserved} --tx-hash {hash} --url {node}", "USED")]),
    ("submitter pause", &[Ends("{to} --reason x --url {node}", "PAUSED")]),
    ("submitter reconcile", &[Ends("{from} --url {node}", "step")]),
    ("submitter remove", &[Ends("{opened} --url {node}", "removed")]),
    ("submitter resume", &[Ends("{to} --reason x --url {node}", "ACTIVE")]),
    ("submitter set", &[Ends("{from} --window 32 --url {node}", "32 (of the account)")]),
    ("submitter show", &[Ends("{from} --url {node}", "next nonce")]),
    ("tx batch", &[Ends("{creates} --url {node}", "202")]),
    ("tx cancel", &[Ends("{pending} --url {node}", "outcome")]),
    ("tx get", &[Ends("{final} --url {node}", "CONFIRMED")]),
    ("tx history", &[Ends("{final} --url {node}", "finalised")]),
    ("tx list", &[Ends("--url {node}", "STATE"), Ends("--csv --url {node}", "txId,")]),
    ("tx raw", &[Refuses("0x02 --url {node}", "rawTx")]),
    (
        "tx replace",
        &[Ends(
            "{pending} --max-fee-per-gas 900gwei --max-priority-fee-per-gas 50gwei --url {node}",
            "outcome",
        )],
    ),
    ("tx resolve", &[Ends("{pending} --url {node}", "outcome")]),
    ("tx resubmit", &[Ends("{pending} --url {node}", "outcome")]),
    ("tx send", &[Ends("--from {from} --to {to} --url {node}", "state")]),
    ("tx simulate", &[Ends("--from {from} --to {to} --url {node}", "max cost")]),
    ("tx speed-up", &[Ends("{pending} --url {node}", "outcome")]),
    ("tx watch", &[Ends("{final} --url {node}", "CONFIRMED")]),
];
