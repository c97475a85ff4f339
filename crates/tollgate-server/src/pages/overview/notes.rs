//! The notes about what needs a person: stuck transactions, payments that wait for funds, accounts that take no work, holes,
//! chains and endpoints that don't answer, and open alerts about anything else.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_api::Submitter;
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::{AlertKind, LineHead, Page, StoreError, StoredAlert, WaitKind};
use tollgate_model::{Address, Allocated, ChainId, Submitter as ModelSubmitter, TxState};

use super::super::format::{Badge, age};
use super::super::submitters::Row;
use super::{ChainCard, NOTES_MAX};
use crate::http::{Chains, Problem};

/// Submitters whose head of line and waits are read (I13).
const READ_MAX: usize = 50;
/// Open alerts that are read (I13): more than are shown, because other notes already tell about some.
const ALERTS_MAX: u32 = 100;
/// An alert that was reported longer ago may be about something that is over.
const FRESH: Duration = Duration::from_secs(60);

/// Something that needs a person.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) badge: Badge,
    /// The kind of alert, under which `docs/operations/alerts.md` has the procedure.
    pub(super) kind: Option<AlertKind>,
    pub(super) text: String,
    pub(super) path: String,
    pub(super) link: String,
    /// A command that works as it stands and changes nothing, or one that a shell refuses before its reason is
    /// filled in; empty if the link is enough.
    pub(super) command: String,
}

/// The page that a note leads to, and the command beside the link.
#[derive(Clone)]
struct Place {
    path: String,
    link: &'static str,
    command: String,
}

/// The notes of a page.
#[derive(Default)]
pub(super) struct Notes {
    urgent: Vec<Note>,
    /// Alerts that are worth a look today.
    later: Vec<Note>,
    /// Alerts about the same as a note are left out.
    told: BTreeSet<(AlertKind, ModelSubmitter)>,
    read: usize,
    /// The viewer may see the transactions of all tenants, and so the head of every line.
    sees_heads: bool,
}

impl Notes {
    pub(super) fn new(sees_heads: bool) -> Self {
        Self { sees_heads, ..Self::default() }
    }

    /// The most urgent ones first.
    pub(super) fn in_order(mut self) -> Vec<Note> {
        self.urgent.append(&mut self.later);
        self.urgent
    }

    fn add(&mut self, badge: Badge, kind: Option<AlertKind>, text: String, place: Place) {
        let Place { path, link, command } = place;
        self.urgent.push(Note { badge, kind, text, path, link: link.to_owned(), command });
    }

    /// A chain or an endpoint that does not answer.
    pub(super) fn add_chain(&mut self, card: &ChainCard) {
        let mut add = |badge, kind, text| {
            let path = "#chains".to_owned();
            self.add(badge, kind, text, Place { path, link: "Chains", command: String::new() });
        };
        if card.status.words == "down" {
            let why = card.detail.clone().unwrap_or_default();
            add(card.status, None, format!("{}: {why}.", card.title));
        }
        for endpoint in card.endpoints.iter().filter(|endpoint| endpoint.badge.class == "stuck") {
            let text =
                format!("{}: endpoint {} – {}.", card.title, endpoint.name, endpoint.badge.words);
            add(endpoint.badge, Some(AlertKind::EndpointDown), text);
        }
    }

    /// Everything that is wrong with an account; its row shows it too.
    pub(super) async fn add_submitter(
        &mut self,
        chains: &Chains,
        of: &Submitter,
        row: &mut Row,
    ) -> Result<(), StoreError> {
        let Some(key) = model_submitter(of) else { return Ok(()) };
        let called = row.label.clone().unwrap_or_else(|| row.short.clone());
        // Where a node serves several chains, commands name one.
        let on = match chains.only() {
            Some(_) => String::new(),
            None => format!(" --chain-id {}", of.chain_id),
        };
        let look = Place {
            path: row.path.clone(),
            link: "Look at it",
            command: format!("tollgate submitter show {}{on}", of.address),
        };
        if row.stuck > 0 {
            let (noun, verb) =
                if row.stuck == 1 { ("transaction", "is") } else { ("transactions", "are") };
            let text = format!("{} {noun} of {called} {verb} stuck.", row.stuck);
            let path = format!("/tx?chain={}&submitter={}&state=STUCK", of.chain_id, of.address);
            let command = format!("tollgate tx list --submitter {} --state STUCK{on}", of.address);
            let place = Place { path, link: "Show them", command };
            self.add(Badge::of_state("STUCK", None), Some(AlertKind::Stuck), text, place);
            self.told.insert((AlertKind::Stuck, key));
        }
        let why = of.status_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let is = match &*of.status {
            "PROTECT" => Some(("in PROTECT", Some(AlertKind::Protect))),
            "PAUSED" => Some(("paused", None)),
            _ => None,
        };
        if let Some((is, kind)) = is {
            let text = format!("{called} is {is}{why}.");
            self.add(row.status, kind, text, look.clone());
            self.told.insert((AlertKind::Protect, key));
        }
        if row.is_idle || self.read == READ_MAX {
            return Ok(());
        }
        self.read += 1;
        if self.sees_heads
            && let Some(head) = chains.store().line_head(key).await?
        {
            self.add_unfunded(&head, key, &called, row);
        }
        let waits = chains.store().waits(key).await?;
        if let Some(wait) = waits.iter().find(|wait| wait.kind == WaitKind::Hole) {
            let badge = Badge { class: "stuck", sign: "∅", words: "hole" };
            let text = format!("{called} has a hole at nonce {}: nobody has it.", wait.nonce);
            // Without a reason in place of the last word, a shell refuses the command.
            let command = format!(
                "tollgate submitter fill {} --first {nonce} --last {nonce} --with placeholder{on} \
                 --reason <REASON>",
                of.address,
                nonce = wait.nonce
            );
            self.add(badge, Some(AlertKind::Hole), text, Place { command, ..look });
            self.told.insert((AlertKind::Hole, key));
            row.trouble = Some(badge);
        }
        Ok(())
    }

    /// A head of line that waits for funds: it goes on by itself, once somebody has sent some.
    fn add_unfunded(&mut self, head: &LineHead, of: ModelSubmitter, called: &str, row: &mut Row) {
        if head.state != TxState::Allocated(Allocated::InsufficientFunds) {
            return;
        }
        let badge = Badge::of_state(head.state.name(), head.state.sub_name());
        let open = row.queued + row.in_flight + row.stuck;
        let behind = match open.saturating_sub(1) {
            0 => String::new(),
            1 => ", with 1 transaction behind it".to_owned(),
            behind => format!(", with {behind} transactions behind it"),
        };
        let text = format!("{called} waits for funds at nonce {}{behind}.", head.nonce);
        let command = format!("tollgate tx get {}", head.tx_id);
        let place = Place { path: format!("/tx/{}", head.tx_id), link: "Look at it", command };
        self.add(badge, Some(AlertKind::InsufficientFunds), text, place);
        self.told.insert((AlertKind::InsufficientFunds, of));
        self.told.insert((AlertKind::LowBalance, of));
        // An alert about a head that makes no progress is about this one.
        self.told.insert((AlertKind::Stuck, of));
        row.trouble = Some(badge);
    }

    /// Open alerts about anything that no other note tells.
    pub(super) async fn add_alerts(&mut self, chains: &Chains) -> Result<(), Problem> {
        for alert in chains.store().alerts(true, Page::new(ALERTS_MAX)?).await? {
            let is_told =
                alert.subject.submitter().is_some_and(|of| self.told.contains(&(alert.kind, of)));
            if is_told || alert.level == AlertLevel::Info {
                continue;
            }
            let list = match alert.level {
                AlertLevel::Critical => &mut self.urgent,
                AlertLevel::Warning | AlertLevel::Info => &mut self.later,
            };
            if list.len() <= NOTES_MAX {
                list.push(alert_note(&alert));
            }
        }
        Ok(())
    }
}

fn alert_note(alert: &StoredAlert) -> Note {
    let path = alert
        .subject
        .submitter()
        .map(|of| format!("/submitters/{}/{}", of.chain_id, of.address.to_checksum(None)));
    let badge = match alert.level {
        AlertLevel::Critical => Badge { class: "stuck", sign: "!", words: "alert" },
        AlertLevel::Warning | AlertLevel::Info => {
            Badge { class: "stale", sign: "!", words: "warning" }
        }
    };
    let detail = alert.detail.as_str().trim_end_matches('.');
    // Alerts stay open for a while, and what they tell may be over by now.
    let seen = match alert.unseen {
        unseen if unseen < FRESH => String::new(),
        unseen => format!(" (last seen {} ago)", age(unseen)),
    };
    Note {
        badge,
        kind: Some(alert.kind),
        text: format!("{}: {detail}{seen}. {}", alert.subject, alert.kind.info().action),
        link: if path.is_some() { "Look at it" } else { "Chains" }.to_owned(),
        path: path.unwrap_or_else(|| "#chains".to_owned()),
        command: "tollgate alert list --config tollgate.toml".to_owned(),
    }
}

fn model_submitter(of: &Submitter) -> Option<ModelSubmitter> {
    let address: Address = of.address.parse().ok()?;
    Some(ModelSubmitter::new(ChainId::new(of.chain_id).ok()?, address))
}

#[cfg(test)]
mod tests {
    use tollgate_model::alert::AlertSubject;
    use tollgate_model::{Text, Timestamp};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn alert_that_was_not_seen_for_a_while_says_when_it_was() {
        let of = |unseen| StoredAlert {
            alert_id: Uuid::nil(),
            kind: AlertKind::FeeCap,
            subject: AlertSubject::node("a"),
            level: AlertLevel::Warning,
            detail: Text::lossy("the market is above a cap."),
            node: "a".to_owned(),
            raised_at: Timestamp::EPOCH,
            seen_at: Timestamp::EPOCH,
            resolved_at: None,
            times: 1,
            unseen: Duration::from_secs(unseen),
        };
        let note = alert_note(&of(5));
        assert_eq!(note.kind, Some(AlertKind::FeeCap));
        assert!(note.text.starts_with("a: the market is above a cap. "), "{}", note.text);
        let note = alert_note(&of(420));
        let told = "a: the market is above a cap (last seen 7 min ago). ";
        assert!(note.text.starts_with(told), "{}", note.text);
    }
}
