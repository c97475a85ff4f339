//! `tollgate submitter nonces`: reservations for programs that sign and send by themselves.

use clap::{Args, Subcommand};
use tollgate_api::{
    Reservation, ReservationPage, Reserve, ReservedNonce, ReturnedNonce, UsedNonce, path,
};

use crate::cli::remote::{Answer, Failed, Remote};
use crate::cli::table::{Fields, Table, cell};
use crate::cli::units::{time_until, to_the_second};
use crate::config::duration;

#[derive(Args)]
pub(super) struct NoncesArgs {
    #[command(subcommand)]
    command: NoncesCommand,
}

#[derive(Subcommand)]
enum NoncesCommand {
    /// List the nonces that callers hold, and those that came back and wait for the next.
    List(ListArgs),
    /// Reserve a nonce: the lowest that came back, else the next one.
    Reserve(ReserveArgs),
    /// Say, before you send, that a reserved nonce is used by a transaction.
    Used(UsedArgs),
    /// Give a reserved nonce back with which nothing was sent.
    Recyclable(RecyclableArgs),
}

#[derive(Args)]
struct ListArgs {
    /// Address of the account.
    address: String,
    /// Maximum number of rows.
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Cursor of the next page, as the previous page gave it.
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
struct ReserveArgs {
    /// Address of the account.
    address: String,
    /// The time after which it comes back by itself, like 2m; that of the node by default.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    hold: Option<std::time::Duration>,
}

/// A reserved nonce, and the proof of its holder.
#[derive(Args)]
struct HeldArgs {
    /// Address of the account.
    address: String,
    /// The nonce.
    nonce: u64,
    /// The owner token that came with the reservation.
    #[arg(long, value_name = "TOKEN")]
    owner_token: String,
}

#[derive(Args)]
struct UsedArgs {
    #[command(flatten)]
    held: HeldArgs,
    /// Hash of the transaction that you have signed and are about to send.
    #[arg(long, value_name = "HASH")]
    tx_hash: String,
}

#[derive(Args)]
struct RecyclableArgs {
    #[command(flatten)]
    held: HeldArgs,
    /// Reason, kept with the nonce.
    #[arg(long)]
    reason: String,
}

pub(super) async fn run(remote: &mut Remote, args: NoncesArgs) -> Result<(), Failed> {
    match args.command {
        NoncesCommand::List(args) => list(remote, args).await,
        NoncesCommand::Reserve(args) => {
            let hold_seconds = args.hold.map(|hold| hold.as_secs().into());
            let body = Reserve { hold_seconds };
            let reserved: Answer<ReservedNonce> =
                remote.post(&path::nonces(&args.address), &body).await?;
            remote.print(&reserved, |ReservedNonce { reservation, owner_token }| {
                fields(reservation).with("owner token", owner_token).print()
            })
        }
        NoncesCommand::Used(UsedArgs { held, tx_hash }) => {
            let path = slot(&held, "used");
            let body = UsedNonce { owner_token: held.owner_token, tx_hash };
            let used: Answer<Reservation> = remote.post(&path, &body).await?;
            remote.print(&used, |used| fields(used).print())
        }
        NoncesCommand::Recyclable(RecyclableArgs { held, reason }) => {
            let path = slot(&held, "recyclable");
            let body = ReturnedNonce { owner_token: held.owner_token, reason };
            let back: Answer<Reservation> = remote.post(&path, &body).await?;
            remote.print(&back, |back| fields(back).print())
        }
    }
}

fn slot(held: &HeldArgs, report: &str) -> String {
    format!("{}/{}/{report}", path::nonces(&held.address), held.nonce)
}

async fn list(remote: &mut Remote, args: ListArgs) -> Result<(), Failed> {
    let params = [("limit", Some(args.limit.to_string())), ("cursor", args.cursor)];
    let path = path::with_query(&path::nonces(&args.address), &params);
    let page = remote.get(&path).await?;
    remote.print(&page, |page: &ReservationPage| {
        table(&page.items).wide(remote.wide).print_page(page.next.as_deref())
    })
}

fn table(items: &[Reservation]) -> Table {
    let head = ["NONCE", "STATE", "COMES BACK", "HASH", "REASON"];
    let mut table = Table::new(head).shortens(&["HASH"]).cuts(&["REASON"]);
    for one in items {
        let held = one.state == "RESERVED";
        table.row([
            one.nonce.to_string(),
            one.state.to_string(),
            cell(held.then(|| format!("in {}", time_until(&one.deadline))).as_ref()),
            cell(one.tx_hash.as_ref()),
            cell(one.reason.as_ref()),
        ]);
    }
    table
}

fn fields(one: &Reservation) -> Fields {
    let mut fields = Fields::default();
    fields.add("submitter", &one.submitter);
    fields.add("nonce", one.nonce);
    fields.add("state", &one.state);
    if one.state == "RESERVED" {
        fields.add("comes back", to_the_second(&one.deadline));
    }
    fields.add_some("hash", one.tx_hash.as_ref());
    fields.add_some("reason", one.reason.as_ref());
    fields
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::cli::table::WIDTH;

    #[test]
    fn reservations_with_long_reasons_fit() {
        let one = serde_json::json!({
            "chainId": 1, "submitter": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "nonce": 12_345_678,
            "state": "RECYCLABLE", "deadline": "2026-11-19T09:30:00Z", "txHash": format!("0x{}", "ab".repeat(32)),
            "reason": "客户撤销了订单".repeat(9),
        });
        let one: Reservation = serde_json::from_value(one).unwrap();
        let lines = table(std::slice::from_ref(&one)).lines();
        assert!(lines.iter().all(|line| line.width() <= WIDTH), "{lines:#?}");
        assert!(lines[1].contains("0xababab…abab"), "{lines:#?}");
        assert!(fields(&one).lines().iter().all(|line| line.width() <= WIDTH));
    }
}
