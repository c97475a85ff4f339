//! Examples of each command, shown at the end of its help. A test parses all of them, and another one checks that
//! no command is without.

use clap::Command;

/// Commands with examples of their use.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("alert list", &["tollgate alert list --config tollgate.toml --all"]),
    ("alert test", &["tollgate alert test ops --config tollgate.toml"]),
    ("api-key list", &["tollgate api-key list --config tollgate.toml"]),
    (
        "api-key new",
        &[
            "tollgate api-key new --config tollgate.toml --name billing --role submit",
            "tollgate api-key new --config tollgate.toml --name support --role read,operate --expires 90d --quiet",
        ],
    ),
    ("api-key revoke", &["tollgate api-key revoke abcdefghijkl --config tollgate.toml"]),
    (
        "api-key rotate",
        &["tollgate api-key rotate abcdefghijkl --config tollgate.toml --grace 48h"],
    ),
    ("audit list", &["tollgate audit list", "tollgate audit list --limit 1000 --json"]),
    ("backup", &["tollgate backup --database-url sqlite:tollgate.db --to tollgate.backup"]),
    (
        "bench",
        &[
            "tollgate bench --url http://127.0.0.1:8550 --count 10000 --wait accepted",
            "tollgate bench --url http://127.0.0.1:8550 --rate 1000 --duration 30s",
        ],
    ),
    (
        "completions",
        &["tollgate completions --after 0 --json", "tollgate completions --after 1234 --follow"],
    ),
    (
        "config check",
        &[
            "tollgate config check --config tollgate.toml",
            "tollgate config check --config tollgate.toml --json",
        ],
    ),
    ("config example", &["tollgate config example"]),
    ("demo", &["tollgate demo", "tollgate demo --intents 1000 --keep"]),
    (
        "dev",
        &[
            "tollgate dev",
            "tollgate dev --block-interval 200ms --finality confirmations:5",
            "tollgate dev --rpc-url http://127.0.0.1:8545",
        ],
    ),
    ("devchain", &["tollgate devchain", "tollgate devchain --port 9545 --block-interval 200ms"]),
    (
        "doctor",
        &[
            "tollgate doctor 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --rpc-url https://rpc.example.com",
            "tollgate doctor 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --rpc-url http://127.0.0.1:8545 \
             --rpc-url https://rpc.example.com --json",
        ],
    ),
    ("events dead-letters list", &["tollgate events dead-letters list --config tollgate.toml"]),
    ("events dead-letters replay", &["tollgate events dead-letters replay --config tollgate.toml"]),
    (
        "events follow",
        &[
            "tollgate events follow",
            "tollgate events follow --after 0 --kind TxConfirmed,TxFailed --json",
        ],
    ),
    ("events listen", &["tollgate events listen --forward-to http://127.0.0.1:3000/hook"]),
    ("events replay", &["tollgate events replay --from 1200 --config tollgate.toml"]),
    ("events test", &["tollgate events test --config tollgate.toml"]),
    (
        "explain",
        &["tollgate explain \"nonce too low\"", "tollgate explain --code -32000 \"already known\""],
    ),
    ("health", &["tollgate health", "tollgate health --live --url https://tollgate.internal:8550"]),
    (
        "keys import",
        &["tollgate keys import keystore --key-file key.txt --password-file password.txt"],
    ),
    ("keys list", &["tollgate keys list keystore"]),
    ("keys new", &["tollgate keys new keystore --password-file password.txt --count 3"]),
    ("migrate", &["tollgate migrate --database-url sqlite:tollgate.db"]),
    ("nodes", &["tollgate nodes", "tollgate nodes --json"]),
    ("openapi", &["tollgate openapi"]),
    ("pool list", &["tollgate pool list"]),
    ("pool remove", &["tollgate pool remove payouts"]),
    (
        "pool set",
        &["tollgate pool set payouts 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 \
             0x70997970C51812dc3A010C7d01b50e0d17dc79C8"],
    ),
    ("pool show", &["tollgate pool show payouts"]),
    ("restore", &["tollgate restore --from tollgate.backup --database-url sqlite:restored.db"]),
    ("retention run", &["tollgate retention run --config tollgate.toml --dry-run"]),
    (
        "serve",
        &[
            "tollgate serve --config tollgate.toml",
            "tollgate serve --database-url sqlite:tollgate.db --rpc-url http://127.0.0.1:8545 \
             --private-key-file keys.txt --no-auth",
        ],
    ),
    ("shell-completions", &["tollgate shell-completions bash", "tollgate shell-completions zsh"]),
    ("submitter add", &["tollgate submitter add hd:7 --label \"deposits 7\" --window 16"]),
    (
        "submitter advance",
        &[
            "tollgate submitter advance 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 118 --reason \"the explorer agrees\"",
        ],
    ),
    (
        "submitter fill",
        &[
            "tollgate submitter fill 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --last 117 --with placeholder \
             --reason \"lost with the old wallet\"",
        ],
    ),
    ("submitter list", &["tollgate submitter list", "tollgate submitter list --wide"]),
    (
        "submitter mode",
        &[
            "tollgate submitter mode 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 strict --reason bridge",
        ],
    ),
    (
        "submitter nonces list",
        &["tollgate submitter nonces list 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"],
    ),
    (
        "submitter nonces recyclable",
        &["tollgate submitter nonces recyclable 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 7 \
             --owner-token 2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11 --reason \"order withdrawn\""],
    ),
    (
        "submitter nonces reserve",
        &["tollgate submitter nonces reserve 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --hold 2m"],
    ),
    (
        "submitter nonces used",
        &["tollgate submitter nonces used 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 7 \
             --owner-token 2f1c1a3e-9d0b-4c53-8a53-6d0d1f0b7a11 --tx-hash 0x88df0164…713944b"],
    ),
    (
        "submitter pause",
        &[
            "tollgate submitter pause 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --reason \"key rotation\"",
        ],
    ),
    (
        "submitter reconcile",
        &["tollgate submitter reconcile 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"],
    ),
    ("submitter remove", &["tollgate submitter remove 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]),
    (
        "submitter resume",
        &[
            "tollgate submitter resume 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --reason \"keys are in place\"",
        ],
    ),
    (
        "submitter set",
        &[
            "tollgate submitter set 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --window 256 --max-value 10eth",
            "tollgate submitter set 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --disable",
        ],
    ),
    ("submitter show", &["tollgate submitter show 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]),
    (
        "tx batch",
        &["tollgate tx batch payouts.jsonl", "generate-payouts | tollgate tx batch --json"],
    ),
    (
        "tx cancel",
        &["tollgate tx cancel 0198c0de-7a11-7000-8000-00000000cafe --reason \"order withdrawn\""],
    ),
    (
        "tx get",
        &[
            "tollgate tx get 0198c0de-7a11-7000-8000-00000000cafe --operator",
            "tollgate tx get --from 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 --request-id order-17 --wait 30",
        ],
    ),
    ("tx history", &["tollgate tx history 0198c0de-7a11-7000-8000-00000000cafe"]),
    (
        "tx list",
        &[
            "tollgate tx list --state STUCK,TRACKING",
            "tollgate tx list --since 2026-11-01T00:00:00Z --csv",
        ],
    ),
    ("tx raw", &["tollgate tx raw 0x02f8… --wait", "tollgate tx raw --request-id order-17"]),
    (
        "tx replace",
        &["tollgate tx replace 0198c0de-7a11-7000-8000-00000000cafe --max-fee-per-gas 60gwei \
             --max-priority-fee-per-gas 2gwei"],
    ),
    ("tx resolve", &["tollgate tx resolve 0198c0de-7a11-7000-8000-00000000cafe"]),
    ("tx resubmit", &["tollgate tx resubmit 0198c0de-7a11-7000-8000-00000000cafe"]),
    (
        "tx send",
        &[
            "tollgate tx send --from 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 \
             --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --value 1.5eth --request-id order-17 --wait",
            "tollgate tx send --from pool:payouts --to 0x5FbDB2315678afecb367f032d93F642f64180aa3 \
             --data 0xa9059cbb --max-fee-per-gas 30gwei",
        ],
    ),
    (
        "tx simulate",
        &["tollgate tx simulate --from 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266 \
             --to 0x70997970C51812dc3A010C7d01b50e0d17dc79C8 --value 1.5eth"],
    ),
    (
        "tx speed-up",
        &[
            "tollgate tx speed-up 0198c0de-7a11-7000-8000-00000000cafe --reason \"a customer waits\"",
        ],
    ),
    ("tx watch", &["tollgate tx watch 0198c0de-7a11-7000-8000-00000000cafe"]),
];

/// Adds the examples to the help of each command.
pub(super) fn with_examples(mut cli: Command) -> Command {
    for (path, examples) in EXAMPLES {
        let words: Vec<&str> = path.split(' ').collect();
        let text = format!("Examples:\n  {}", examples.join("\n  "));
        cli = at(cli, &words, &|command| command.after_help(text.clone()));
    }
    cli
}

/// Changes the command at a path. A path that leads nowhere changes nothing.
fn at(command: Command, path: &[&str], change: &dyn Fn(Command) -> Command) -> Command {
    let Some((first, rest)) = path.split_first() else { return change(command) };
    if command.find_subcommand(first).is_none() {
        return command;
    }
    command.mut_subcommand(*first, |below| at(below, rest, change))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn leaves(command: &Command, path: &str, found: &mut BTreeSet<String>) {
        let below: Vec<&Command> =
            command.get_subcommands().filter(|it| it.get_name() != "help").collect();
        if below.is_empty() {
            found.insert(path.to_owned());
        }
        for command in below {
            leaves(command, format!("{path} {}", command.get_name()).trim_start(), found);
        }
    }

    /// The words of a command line; quoted ones may have blanks.
    fn words(line: &str) -> Vec<String> {
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(place, part)| match place % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn every_command_has_examples_and_no_other_has() {
        let mut commands = BTreeSet::new();
        leaves(&Cli::command(), "", &mut commands);
        let named: BTreeSet<String> = EXAMPLES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(named, commands);
        assert!(EXAMPLES.is_sorted_by_key(|(path, _)| *path), "in the order of the alphabet");
    }

    #[test]
    fn every_example_is_a_command_line_that_is_understood() {
        for (path, examples) in EXAMPLES {
            assert!(!examples.is_empty(), "{path}");
            for example in *examples {
                let own = example.split(" | ").last().unwrap();
                assert!(own.starts_with(&format!("tollgate {path}")), "{example}");
                let parsed = Cli::command().try_get_matches_from(words(own));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }
}
