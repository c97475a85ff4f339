//! The table of the kinds of alerts: the one source of `docs/operations/alerts.md`, of the messages that
//! sinks send, and of the rule on their ends.

use super::{AlertEnd, AlertLevel};
use crate::port::AlertKind;

/// The text about a kind of alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlertInfo {
    /// Its level, unless a report sets another.
    pub level: AlertLevel,
    pub end: AlertEnd,
    /// A few words.
    pub title: &'static str,
    /// The meaning, in one sentence.
    pub meaning: &'static str,
    /// The first thing to do. The page has the whole procedure under the kind's name.
    pub action: &'static str,
}

use AlertEnd::{Event, Measured, NotProtected, NothingOpen, NothingStuck};
use AlertLevel::{Critical, Warning};

const fn info(
    level: AlertLevel,
    end: AlertEnd,
    title: &'static str,
    meaning: &'static str,
    action: &'static str,
) -> AlertInfo {
    AlertInfo { level, end, title, meaning, action }
}

impl AlertKind {
    /// The row of the table.
    pub const fn info(self) -> AlertInfo {
        match self {
            Self::Stuck => info(
                Critical,
                NothingStuck,
                "Transaction stuck",
                "A transaction is STUCK, or the first in line makes no progress, and those behind it wait.",
                "Run `tollgate tx get` with the id; speed it up, cancel it, or repair the cause that it names.",
            ),
            Self::Backlog => info(
                Warning,
                NothingOpen,
                "Backlog",
                "Too many transactions of an account are open, or the oldest has been open for too long.",
                "Look at the first in line with `tollgate submitter show`; it is what the others wait for.",
            ),
            Self::InsufficientFunds => info(
                Critical,
                NothingOpen,
                "Insufficient funds",
                "The balance of an account does not cover an open transaction, which waits for it.",
                "Send funds to the account; the transaction goes on by itself.",
            ),
            Self::FeeCap => info(
                Warning,
                NothingOpen,
                "Price does not fit the market",
                "The chain asks for more than a transaction offers or a cap allows, or nodes find its price too high; it waits.",
                "Read the detail: speed it up, wait for the price to fall, or raise the cap that it names.",
            ),
            Self::Rejected => info(
                Critical,
                NothingOpen,
                "Transaction rejected",
                "Every endpoint rejects a transaction.",
                "Read the answer in the detail; `tollgate explain` says what it means.",
            ),
            Self::Hole => info(
                Critical,
                NothingOpen,
                "Nonce gap",
                "The chain waits for a nonce in which Tollgate has no transaction; all later ones wait.",
                "Find out who took the nonce; close it with `tollgate submitter fill`.",
            ),
            Self::Protect => info(
                Critical,
                NotProtected,
                "Account in PROTECT",
                "The chain counts transactions of the account that Tollgate did not send; it takes no new work.",
                "Find out who else has the key before `tollgate submitter resume`.",
            ),
            Self::NonceTaken => info(
                Critical,
                Event,
                "Foreign transaction in a slot",
                "A transaction that Tollgate did not send was mined with a nonce of the account.",
                "Find out who else has the key; the transaction that lost its nonce has to be sent again.",
            ),
            Self::Unsigned => info(
                Critical,
                NothingOpen,
                "Transaction can't be signed",
                "A queued transaction can't be signed by this node, and those behind it wait.",
                "Update the nodes, or repair the key that the detail names; or cancel the transaction.",
            ),
            Self::ReservationUnsent => info(
                Warning,
                NothingOpen,
                "Reserved nonce not sent",
                "A caller reported a reserved nonce as used, and no endpoint has its transaction.",
                "Ask the caller to send it again, or to give the nonce back.",
            ),
            Self::CountDoubted => info(
                Warning,
                NothingOpen,
                "Transaction count in doubt",
                "One endpoint alone counts far more transactions than Tollgate sent, or endpoints disagree.",
                "Compare the endpoints with `tollgate doctor`; remove the one that is wrong, or add another.",
            ),
            Self::ReceiptUnread => info(
                Warning,
                NothingOpen,
                "Receipt not delivered",
                "A transaction is in a block, and no endpoint delivers its receipt.",
                "Look at the endpoints with `tollgate submitter show` and at their provider's status.",
            ),
            Self::ReceiptDisputed => info(
                Critical,
                NothingOpen,
                "Receipt disputed",
                "Endpoints contradict each other about the receipt of a mined transaction, which does not become final.",
                "Compare the endpoints with an explorer, and remove the one that is wrong.",
            ),
            Self::BlockUnread => info(
                Critical,
                NothingOpen,
                "Block not delivered",
                "No endpoint delivers the next block, so nothing on the chain becomes final.",
                "Look at the endpoints of the chain; add another one.",
            ),
            Self::FinalityStalled => info(
                Warning,
                NothingOpen,
                "Finality stalled",
                "A mined transaction waits for finality, and the finalized height of the chain does not rise.",
                "Look at the chain's status; nothing is lost, and what is mined stays tracked.",
            ),
            Self::Policy => info(
                Warning,
                Event,
                "Stuck policy failed",
                "The stuck policy could not be asked, or its decision can't be carried out.",
                "Look at the receiver of `stuck.hook.url`, or at the rule that the detail names.",
            ),
            Self::Unserved => info(
                Critical,
                NothingOpen,
                "Account without a node",
                "An account has open work, and no live node serves it: nothing can be signed.",
                "Start a node that has the key, or cancel what waits.",
            ),
            Self::FencedSurge => info(
                Warning,
                Measured,
                "Many writes fenced",
                "A node was refused the accounts that it no longer owns, more often than a takeover explains.",
                "Look for a node that pauses, a slow database, or two nodes that take accounts from each other.",
            ),
            Self::ReceiptBacklog => info(
                Warning,
                Measured,
                "Many transactions wait for a receipt",
                "More sent transactions of an account than usual are in no block, and the oldest is old.",
                "Look at the first in line, at the price of the chain, and at the endpoints' heads.",
            ),
            Self::ReconcileFailure => info(
                Warning,
                NothingOpen,
                "Account not reconciled",
                "An account could not be compared with the chain several times in a row.",
                "Look at the endpoints of the chain; the account is compared again every few seconds.",
            ),
            Self::ReservationsPilingUp => info(
                Warning,
                Measured,
                "Reservations piling up",
                "Callers hold nearly as many nonces of an account as `reservations.max_outstanding` allows.",
                "Find the caller that reserves nonces and neither uses nor returns them.",
            ),
            Self::GreyZone => info(
                Warning,
                Measured,
                "Sends with unknown outcome",
                "Transactions of an account were sent, and it has not been known for a while whether a node has them.",
                "Look at the endpoints; the same bytes are sent again until one answers.",
            ),
            Self::LowBalance => info(
                Warning,
                Measured,
                "Low balance",
                "The balance of an account is below the floor, or lasts for few days at the present burn.",
                "Send funds to the account.",
            ),
            Self::ResubmitRate => info(
                Warning,
                Measured,
                "Many resends",
                "A node sends transactions again at a high rate: blocks don't include them, or pools lose them.",
                "Compare the fees with the market, and the endpoints with each other.",
            ),
            Self::EndpointDown => info(
                Warning,
                Measured,
                "Endpoint down",
                "A node gets no answers from an endpoint; the others carry on.",
                "Look at the provider's status and at the quota; remove the endpoint if it stays down.",
            ),
            Self::ChainStalled => info(
                Critical,
                Measured,
                "Chain not advancing",
                "No new block was seen for long, and transactions wait for one.",
                "Compare the heads of the endpoints with an explorer: is it the chain or the endpoints?",
            ),
            Self::ClockDrift => info(
                Warning,
                Measured,
                "Clock drift",
                "The clock of a node differs from the database's: ages and schedules are wrong by as much.",
                "Repair the time synchronisation of the host. Leases don't depend on it.",
            ),
            Self::TopUpFailed => info(
                Critical,
                Measured,
                "Top-up not made",
                "An account is below its floor, and its funding account does not pay: a cap, a rule or missing funds.",
                "Read the detail, repair what it names, or send funds to the account yourself.",
            ),
        }
    }

    /// The page and heading with the whole procedure.
    pub fn docs_path(self) -> String {
        format!("docs/operations/alerts.md#{}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_says_what_it_means_and_what_to_do_in_sentences() {
        for kind in AlertKind::ALL {
            let AlertInfo { title, meaning, action, .. } = kind.info();
            assert!(title.len() <= 50 && !title.ends_with('.'), "{kind}");
            for text in [meaning, action] {
                assert!(text.ends_with(['.', '?']) && text.len() <= 150, "{kind}: {text}");
            }
        }
    }

    #[test]
    fn kinds_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = AlertKind::ALL.map(AlertKind::name).into();
        assert_eq!(names.len(), AlertKind::ALL.len());
    }
}
