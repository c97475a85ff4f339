//! Rules on the settings of top-ups.

use tollgate_model::top_up::CAP_WINDOW;

use super::{Rules, Settings};
use crate::config::parse::duration_text;
use crate::config::settings::TopUpEntry;
use crate::config::types::Age;

impl Rules<'_> {
    pub(super) fn top_ups(&mut self, settings: &Settings) {
        let entries = &settings.node.topup;
        for (place, entry) in entries.iter().enumerate() {
            for reason in problems(entry, &entries[..place], settings) {
                self.refuse("topup", format!("account {}: {reason}", entry.account));
            }
        }
        if let Some(entry) = entries.iter().find(|entry| is_in_circle(entry, entries)) {
            let reason = "is paid by an account that it pays itself, perhaps through others";
            self.refuse("topup", format!("account {} {reason}", entry.account));
        }
        // I16: a payment that was removed would not count against the cap.
        let pays = entries.iter().any(|entry| entry.from.is_some());
        let removed =
            settings.retention.finished_after.filter(|Age(age)| pays && *age < CAP_WINDOW);
        if let Some(Age(age)) = removed {
            let reason = format!(
                "{} is too short with topup: the payments of {} are counted",
                duration_text(age),
                duration_text(CAP_WINDOW)
            );
            self.refuse("retention.finished_after", reason);
        }
    }
}

/// The mistakes of one entry.
fn problems(entry: &TopUpEntry, before: &[TopUpEntry], settings: &Settings) -> Vec<String> {
    let mut problems = Vec::new();
    let chains = &settings.node.chains;
    match entry.chain {
        None if chains.len() > 1 => {
            problems.push("chain is missing: the node serves several".to_owned());
        }
        Some(chain) if !chains.is_empty() && chains.iter().all(|served| served.id != chain) => {
            problems.push(format!("chain {chain} is not among [[chains]]"));
        }
        Some(_) | None => {}
    }
    let is_same = |other: &TopUpEntry| {
        let on_one = other.chain.is_none() || entry.chain.is_none() || other.chain == entry.chain;
        other.account == entry.account && on_one
    };
    if before.iter().any(is_same) {
        problems.push("is given twice".to_owned());
    }
    let Some(from) = entry.from else {
        if entry.target.is_some() || entry.daily_cap.is_some() {
            problems.push("target and daily_cap need from".to_owned());
        }
        return problems;
    };
    if from == entry.account {
        problems.push("from is the account itself".to_owned());
    }
    match entry.target {
        None => problems.push("from needs target".to_owned()),
        Some(target) if target <= entry.floor => {
            problems.push("target must be above floor".to_owned());
        }
        Some(_) => {}
    }
    if entry.daily_cap.is_none() {
        problems.push("from needs daily_cap".to_owned());
    }
    problems
}

/// Follows the funding accounts from one to the next; there are at most as many steps as entries.
fn is_in_circle(start: &TopUpEntry, entries: &[TopUpEntry]) -> bool {
    let paid_by = |account, chain| {
        let on_one = |other: &&TopUpEntry| {
            other.account == account && (other.chain == chain || other.chain.is_none())
        };
        entries.iter().find(on_one).and_then(|entry| entry.from)
    };
    let mut payer = start.from.filter(|from| *from != start.account);
    for _ in entries {
        let Some(account) = payer else { return false };
        payer = paid_by(account, start.chain);
        if payer == Some(start.account) {
            return true;
        }
    }
    false
}
