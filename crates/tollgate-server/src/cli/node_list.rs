//! `tollgate nodes`: the nodes that share the database.

use std::process::ExitCode;

use clap::Args;
use tollgate_api::{Node, NodeList, path};

use super::remote::{self, RemoteArgs};
use super::table::{Table, cell};
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct NodesArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

pub(super) fn run(args: NodesArgs) -> Result<ExitCode, Failure> {
    remote::run(args.remote, async |remote| {
        let nodes = remote.get(path::NODES).await?;
        remote.print(&nodes, |nodes: &NodeList| table(&nodes.items).wide(remote.wide).print())
    })
}

fn table(items: &[Node]) -> Table {
    let mut table =
        Table::new(["CHAIN", "NODE", "STATE", "ACCOUNTS", "URL"]).cuts(&["NODE", "URL"]);
    for node in items {
        let state = if node.draining { "draining" } else { "alive" };
        table.row([
            node.chain_id.to_string(),
            node.node.clone(),
            state.to_owned(),
            cell(node.accounts.as_ref()),
            node.url.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::cli::table::WIDTH;

    #[test]
    fn nodes_with_long_names_fit_and_their_urls_stay_whole() {
        let node = Node {
            chain_id: 421_614,
            node: "tollgate-prod-eu-west-1a-7d9f/0198c0de7a11700080000000000cafe0".to_owned(),
            url: "https://tollgate-1.internal:8550".to_owned(),
            draining: true,
            accounts: None,
        };
        let lines = table(&[node]).lines();
        assert!(lines.iter().all(|line| line.width() <= WIDTH), "{lines:#?}");
        assert!(lines[1].contains("tollgate-prod-eu") && lines[1].ends_with(":8550"), "{lines:#?}");
    }
}
