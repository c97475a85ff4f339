//! Reads the balances of the accounts that this node serves, for metrics. Owns the readings; nothing is decided
//! by them.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::iter;
use tokio::time::sleep;
use tollgate_metrics::BalanceReading;
use tollgate_model::burn::BurnWatch;
use tollgate_model::{Address, Wei};
use tracing::debug;

use crate::context::Context;

/// Accounts that are read in one round (I13); the others follow in the next ones.
const ACCOUNTS_MAX: usize = 1_000;
/// Reads at once.
const AT_ONCE: usize = 4;
/// The pause before options that turn it off are looked at again: they don't change.
const OFF: Duration = Duration::from_secs(3_600);

/// Reads until the engine is gone.
pub(crate) async fn watch(context: Weak<Context>) {
    let (mut readings, mut after) = (BTreeMap::<Address, BurnWatch>::new(), None);
    loop {
        let Some(strong) = context.upgrade() else { return };
        let interval = strong.options.balance_interval;
        if interval.is_some() {
            after = read_round(&strong, &mut readings, after).await;
        }
        drop(strong);
        sleep(interval.unwrap_or(OFF)).await;
    }
}

/// Reads the next accounts above `after`; returns the last one if there may be more above it.
async fn read_round(
    context: &Context,
    readings: &mut BTreeMap<Address, BurnWatch>,
    after: Option<Address>,
) -> Option<Address> {
    let served = context.accounts.served().borrow().clone();
    readings.retain(|account, _| served.contains(*account));
    context.metrics.accounts.keep_balances(|account| served.contains(*account));
    let above = |account: &Address| after.is_none_or(|after| *account > after);
    let accounts: Vec<Address> = served.accounts().filter(above).take(ACCOUNTS_MAX).collect();
    let read = |account| async move { (account, context.chain.balance(account).await) };
    let mut reads = iter(accounts.iter().copied()).map(read).buffered(AT_ONCE);
    while let Some((account, balance)) = reads.next().await {
        match balance {
            Ok(Wei(balance)) => {
                let watch = readings.entry(account).or_default();
                watch.note(context.clock.now(), balance);
                let left_seconds = watch.time_left().map(|left| left.as_secs_f64());
                let reading = BalanceReading {
                    ether: f64::from(balance) / 1e18,
                    left_seconds,
                    measured_seconds: watch.span().as_secs_f64(),
                };
                context.metrics.accounts.set_balance(account, reading);
            }
            Err(error) => debug!(%account, %error, "balance not read"),
        }
    }
    accounts.last().copied().filter(|_| accounts.len() == ACCOUNTS_MAX)
}
