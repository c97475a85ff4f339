//! The work of one node at a time for all: measures the accounts of its chains, and ends alerts that are over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tollgate_api::format_eth;
use tollgate_model::alert::balance::{BalanceHistory, LowBalance, judge_balance};
use tollgate_model::alert::{AccountFacts, AlertSubject, Threshold, is_over};
use tollgate_model::port::{AlertKind, Page, StoreError, SubmitterOverview};
use tollgate_model::{Allocated, ChainId, Submitter, Timestamp, Tracking, TxState, Wei};
use tracing::{info, warn};

use super::{EMPTY_SOON, Found, Gates, WatchedChain, Watcher};
use crate::config::{Age, TopUpEntry};

/// The claim lasts for this many intervals: a node that dies is replaced after it.
const CLAIM_INTERVALS: u32 = 4;
/// Pages of accounts that are measured of one chain (I13).
const PAGES_MAX: u32 = 20;
/// Balances that are read at each interval (I13), of one chain, those that were read longest ago first.
const BALANCES_MAX: usize = 20;
/// Alerts that are looked at and deleted at each interval (I13).
const ALERTS_MAX: u32 = 1_000;

/// Looks at each interval while no other node does, for ever.
pub(super) async fn look_after_alerts(watcher: Watcher) {
    let mut watch = Watch::default();
    let interval = watcher.settings.interval;
    loop {
        tokio::time::sleep(interval).await;
        let claimed = watcher.store.claim_alert_watch(&watcher.node, interval * CLAIM_INTERVALS);
        match claimed.await {
            Ok(true) => {
                if let Err(error) = watch.look(&watcher).await {
                    warn!(%error, "alerts were not looked after");
                }
            }
            // What was measured is out of date when it is this node's turn again.
            Ok(false) => {
                watch = Watch::default();
                for of in watcher.chains() {
                    of.engine.metrics().accounts_below_floor.set_or_clear(None);
                }
            }
            Err(error) => warn!(%error, "alerts were not looked after"),
        }
    }
}

#[derive(Default)]
pub(super) struct Watch {
    gates: Gates,
    balances: BTreeMap<Submitter, Balance>,
}

/// An account's balance as it was last read.
#[derive(Default)]
struct Balance {
    history: BalanceHistory,
    read_at: Option<Timestamp>,
    /// The finding that is reported until the next reading says otherwise.
    low: Option<(Wei, LowBalance)>,
}

impl Watch {
    async fn look(&mut self, watcher: &Watcher) -> Result<(), StoreError> {
        let mut facts = BTreeMap::new();
        for of in watcher.chains() {
            self.accounts(watcher, &of, &mut facts).await?;
            self.balances(watcher, &of).await;
        }
        self.end(watcher, &facts).await?;
        let (Age(age), page) = (watcher.settings.keep, Page::new(ALERTS_MAX)?);
        watcher.store.forget_alerts(age, page).await.map(drop)
    }

    async fn accounts(
        &mut self,
        watcher: &Watcher,
        of: &WatchedChain,
        facts: &mut BTreeMap<Submitter, AccountFacts>,
    ) -> Result<(), StoreError> {
        let (page, mut after) = (Page::new(Page::MAX)?, None);
        for _ in 0..PAGES_MAX {
            let found = watcher.store.submitters(of.engine.chain_id(), after, page).await?;
            let Some(last) = found.last() else { break };
            after = Some(last.record.submitter.address);
            let is_last = found.len() < page.limit() as usize;
            let now = watcher.clock.now();
            for overview in &found {
                facts.insert(overview.record.submitter, facts_of(overview));
                self.sends(watcher, overview, now);
            }
            if let Some(max) = of.engine.reservations_max() {
                self.reservations(watcher, &found, max).await?;
            }
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Sends without a receipt, and sends with an unknown outcome.
    pub(super) fn sends(
        &mut self,
        watcher: &Watcher,
        overview: &SubmitterOverview,
        now: Timestamp,
    ) {
        let (settings, subject) =
            (&watcher.settings, AlertSubject::account(overview.record.submitter));
        let sent = count(overview, |state| {
            matches!(
                state,
                TxState::Allocated(Allocated::UnknownSubmitResult)
                    | TxState::Tracking(Tracking::Pending | Tracking::Stale)
            )
        });
        let oldest = overview.oldest_open.map_or(Duration::ZERO, |at| now.since(at));
        let is_old = oldest >= settings.receipt_backlog_age;
        let found = Found {
            kind: AlertKind::ReceiptBacklog,
            subject: &subject,
            threshold: Threshold::halving(settings.receipt_backlog, Duration::ZERO),
            measured: if is_old { sent } else { 0 },
        };
        self.gates.judge(&watcher.collector, now, found, || {
            format!(
                "{sent} sent transactions wait for a receipt; the oldest open one is {} s old",
                oldest.as_secs()
            )
        });
        let grey =
            count(overview, |state| state == TxState::Allocated(Allocated::UnknownSubmitResult));
        let found = Found {
            kind: AlertKind::GreyZone,
            subject: &subject,
            threshold: Threshold::condition(settings.grey_zone_after),
            measured: grey,
        };
        self.gates.judge(&watcher.collector, now, found, || {
            format!("it is not known whether a node has {grey} transactions that were sent")
        });
    }

    async fn reservations(
        &mut self,
        watcher: &Watcher,
        of: &[SubmitterOverview],
        max: u32,
    ) -> Result<(), StoreError> {
        let submitters: Vec<Submitter> = of.iter().map(|it| it.record.submitter).collect();
        let counts = watcher.store.reserved_counts(&submitters).await?;
        for (submitter, held) in submitters.into_iter().zip(counts) {
            self.held(watcher, submitter, held, max);
        }
        Ok(())
    }

    /// Nonces that callers hold.
    pub(super) fn held(&mut self, watcher: &Watcher, of: Submitter, held: u64, max: u32) {
        let found = Found {
            kind: AlertKind::ReservationsPilingUp,
            subject: &AlertSubject::account(of),
            threshold: Threshold::halving(watcher.settings.reservations_percent, Duration::ZERO),
            measured: held.saturating_mul(100) / u64::from(max.max(1)),
        };
        self.gates.judge(&watcher.collector, watcher.clock.now(), found, || {
            format!("callers hold {held} nonces of {max}")
        });
    }

    /// Reads the balances that were read longest ago, and reports those that were low when they were read.
    async fn balances(&mut self, watcher: &Watcher, of: &WatchedChain) {
        let chain_id = of.engine.chain_id();
        let floors = floors(&watcher.top_ups, chain_id);
        let settings = &watcher.settings;
        let mut wanted = BTreeSet::from_iter(floors.keys().copied());
        if settings.balance_floor.is_some() || settings.low_balance_days > 0 {
            let served = of.engine.accounts().served().borrow().clone();
            wanted.extend(served.accounts().map(|address| Submitter::new(chain_id, address)));
        }
        self.balances.retain(|known, _| known.chain_id != chain_id || wanted.contains(known));
        for submitter in wanted {
            self.balances.entry(submitter).or_default();
        }
        let mut due: Vec<(Option<Timestamp>, Submitter)> = self
            .balances
            .iter()
            .filter(|(known, _)| known.chain_id == chain_id)
            .map(|(known, balance)| (balance.read_at, *known))
            .collect();
        due.sort();
        for (_, submitter) in due.into_iter().take(BALANCES_MAX) {
            let read = of.engine.balance(submitter.address).await.ok();
            let floor = floors.get(&submitter).copied().or(settings.balance_floor);
            self.note_balance(watcher, submitter, read, floor);
        }
        let below = self.report_balances(watcher, chain_id);
        of.engine.metrics().accounts_below_floor.set(f64::from(below));
    }

    /// Judges a balance that was read. One that can't be read is no news about it.
    pub(super) fn note_balance(
        &mut self,
        watcher: &Watcher,
        of: Submitter,
        balance: Option<Wei>,
        floor: Option<Wei>,
    ) {
        let (entry, now) = (self.balances.entry(of).or_default(), watcher.clock.now());
        entry.read_at = Some(now);
        let Some(balance) = balance else { return };
        entry.history.note(balance, now);
        let (burn, days) = (entry.history.burn_per_day(), watcher.settings.low_balance_days);
        entry.low = judge_balance(balance, floor, burn, days).map(|low| (balance, low));
    }

    /// Reports the balances of a chain that are low; returns how many are below their floor.
    pub(super) fn report_balances(&self, watcher: &Watcher, chain_id: ChainId) -> u32 {
        let mut below = 0;
        for (submitter, entry) in self.balances.iter().filter(|(it, _)| it.chain_id == chain_id) {
            let Some((balance, low)) = entry.low else { continue };
            report_low(watcher, *submitter, balance, low);
            below += u32::from(matches!(low, LowBalance::BelowFloor { .. }));
        }
        below
    }

    /// Ends the alerts that are over.
    pub(super) async fn end(
        &self,
        watcher: &Watcher,
        facts: &BTreeMap<Submitter, AccountFacts>,
    ) -> Result<(), StoreError> {
        for alert in watcher.store.alerts(true, Page::new(ALERTS_MAX)?).await? {
            let account = alert.subject.submitter().and_then(|of| facts.get(&of)).copied();
            let resolve_after = watcher.settings.resolve_after;
            if is_over(alert.kind, alert.unseen, account, resolve_after)
                && watcher.store.resolve_alert(alert.alert_id, alert.seen_at).await?
            {
                let (kind, subject) = (alert.kind, &alert.subject);
                info!(target: "tollgate::alert", %kind, %subject, "alert resolved");
                watcher.changed.notify_one();
            }
        }
        Ok(())
    }
}

/// The floors of accounts that have their own.
fn floors(entries: &[TopUpEntry], chain_id: ChainId) -> BTreeMap<Submitter, Wei> {
    let on_chain = entries.iter().filter(|entry| entry.is_on(chain_id));
    on_chain.map(|entry| (entry.submitter(chain_id), entry.floor)).collect()
}

fn report_low(watcher: &Watcher, of: Submitter, balance: Wei, low: LowBalance) {
    let (kind, shown) = (AlertKind::LowBalance, format_eth(&balance.to_string()));
    let (days, what) = match low {
        LowBalance::BelowFloor { floor, days } => {
            let floor = format_eth(&floor.to_string());
            (days, Some(format!("is below the floor of {floor}")))
        }
        LowBalance::FewDays { days } => (Some(days), None),
    };
    let lasts = days.map(|days| match days {
        0 => "lasts for less than a day".to_owned(),
        1 => "lasts for 1 day".to_owned(),
        days => format!("lasts for {days} days"),
    });
    let what: Vec<String> = what.into_iter().chain(lasts).collect();
    let level = if days == Some(0) { EMPTY_SOON } else { kind.info().level };
    let detail = format!("the balance of {shown} {}", what.join(" and "));
    watcher.collector.report(kind, AlertSubject::account(of), level, &detail);
}

fn count(overview: &SubmitterOverview, is_counted: impl Fn(TxState) -> bool) -> u64 {
    let counted = overview.depth.iter().filter(|(state, _)| is_counted(*state));
    counted.map(|(_, number)| number).sum()
}

fn facts_of(overview: &SubmitterOverview) -> AccountFacts {
    AccountFacts {
        open: count(overview, |state| !state.is_final()),
        stuck: count(overview, |state| matches!(state, TxState::Stuck(_))),
        status: overview.record.status,
    }
}
