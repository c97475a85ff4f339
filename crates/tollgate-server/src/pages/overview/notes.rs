//! The notes about what needs a person: stuck transactions, payments that wait for funds, accounts that take no work, holes,
//! chains and endpoints that don't answer, and open alerts about anything else.

use std::collections::BTreeSet;

use tollgate_api::Submitter;
use tollgate_model::alert::AlertLevel;
use tollgate_model::port::{AlertKind, LineHead, Page, StoreError, StoredAlert, WaitKind};
use tollgate_model::{Address, Allocated, ChainId, Submitter as ModelSubmitter, TxState};

use super::super::format::Badge;
use super::super::submitters::Row;
use super::{ChainCard, NOTES_MAX};
use crate::http::{Chains, Problem};

/// Submitters whose head of line and waits are read (I13).
const READ_MAX: usize = 50;
/// Open alerts that are read (I13): more than are shown, because other notes already tell about some.
const ALERTS_MAX: u32 = 100;

/// Something that needs a person.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) badge: Badge,
    pub(super) text: String,
    pub(super) path: String,
    pub(super) link: String,
    pub(super) command: String,
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

    fn add(&mut self, badge: Badge, text: String, path: String, link: &str, command: String) {
        self.urgent.push(Note { badge, text, path, link: link.to_owned(), command });
    }

    /// A chain or an endpoint that does not answer.
    pub(super) fn add_chain(&mut self, card: &ChainCard) {
        let mut add = |badge, text| {
            let command = "curl …/api/v1/chains".to_owned();
            self.add(badge, text, "#chains".to_owned(), "Chains", command);
        };
        if card.status.words == "down" {
            let why = card.detail.clone().unwrap_or_default();
            add(card.status, format!("{}: {why}.", card.title));
        }
        for endpoint in card.endpoints.iter().filter(|endpoint| endpoint.badge.class == "stuck") {
            let text =
                format!("{}: endpoint {} – {}.", card.title, endpoint.name, endpoint.badge.words);
            add(endpoint.badge, text);
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
        let called = of.label.clone().unwrap_or_else(|| row.short.clone());
        if row.stuck > 0 {
            let (noun, verb) =
                if row.stuck == 1 { ("transaction", "is") } else { ("transactions", "are") };
            let text = format!("{} {noun} of {called} {verb} stuck.", row.stuck);
            let list = format!("/tx?chain={}&submitter={}&state=STUCK", of.chain_id, of.address);
            let command = format!("tollgate tx list --submitter {} --state STUCK", of.address);
            self.add(Badge::of_state("STUCK", None), text, list, "Show them", command);
            self.told.insert((AlertKind::Stuck, key));
        }
        let why = of.status_reason.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let is = match &*of.status {
            "PROTECT" => Some("in PROTECT"),
            "PAUSED" => Some("paused"),
            _ => None,
        };
        if let Some(is) = is {
            let text = format!("{called} is {is}{why}.");
            let command = format!("tollgate submitter resume {} --reason …", of.address);
            self.add(row.status, text, row.path.clone(), "Look at it", command);
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
            let command = format!("tollgate submitter fill {} …", of.address);
            self.add(badge, text, row.path.clone(), "Look at it", command);
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
        self.add(badge, text, format!("/tx/{}", head.tx_id), "Look at it", command);
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
    Note {
        badge,
        text: format!("{}: {}. {}", alert.subject, alert.detail, alert.kind.info().action),
        link: if path.is_some() { "Look at it" } else { "Chains" }.to_owned(),
        path: path.unwrap_or_else(|| "#chains".to_owned()),
        command: "tollgate alert list".to_owned(),
    }
}

fn model_submitter(of: &Submitter) -> Option<ModelSubmitter> {
    let address: Address = of.address.parse().ok()?;
    Some(ModelSubmitter::new(ChainId::new(of.chain_id).ok()?, address))
}
