//! Rules between settings: derived defaults, combinations that are refused or have no effect.

mod alerts;
mod events;
mod tls;
mod top_up;
mod traces;

use std::time::Duration;

use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_http::{http_url, names_link_local};
use tollgate_model::nonce::Mode;
use tollgate_model::rejected::RejectedSlot;

use super::field::AppliesTo;
use super::keys::{KEYS, Key, find};
use super::load::Values;
use super::parse::duration_text;
use super::settings::Settings;
use super::types::{Age, RetentionMode};
use super::value::Problem;
use super::{Purpose, own_url};

/// Applies all rules. Problems of a value itself are in `problems` already.
pub(super) fn apply(
    settings: &mut Settings,
    values: &mut Values,
    purpose: Purpose,
    problems: &mut Vec<Problem>,
) {
    let mut rules = Rules { values, problems };
    rules.derive_defaults(settings);
    rules.chain(settings);
    rules.chains(settings);
    rules.keys(settings);
    rules.lease(settings);
    rules.stuck(settings);
    rules.hook(settings);
    rules.events(settings);
    rules.traces(settings);
    rules.advertise_url(settings);
    rules.retention(settings);
    rules.tls(settings);
    rules.alerts(settings);
    rules.top_ups(settings);
    rules.warn_of_settings_without_effect(settings);
    if purpose == Purpose::Serve {
        rules.serve(settings);
    }
}

struct Rules<'a> {
    values: &'a mut Values,
    problems: &'a mut Vec<Problem>,
}

impl Rules<'_> {
    fn refuse(&mut self, name: &str, reason: impl Into<String>) {
        self.problems.push(Problem::new(self.values.source(name), name, reason));
    }

    /// Refuses a combination of two settings, at the first unless only the second is given. Says
    /// nothing if the value of one is refused already: its default took its place.
    fn refuse_pair(&mut self, first: &str, second: &str, reason: String) {
        if !self.is_refused(first) && !self.is_refused(second) {
            self.refuse(self.given_of(first, second), reason);
        }
    }

    fn is_refused(&self, name: &str) -> bool {
        self.problems.iter().any(|problem| problem.key.as_deref() == Some(name))
    }

    fn given_of<'n>(&self, first: &'n str, second: &'n str) -> &'n str {
        let only_second = !self.values.is_given(first) && self.values.is_given(second);
        if only_second { second } else { first }
    }

    fn warn(&mut self, name: &str, reason: &str) {
        self.values.warnings.push(format!("{}: {name}: {reason}", self.values.source(name)));
    }

    fn warn_if_changed(&mut self, key: &Key, reason: String) {
        if self.values.is_changed(key.path) {
            self.warn(key.path, &reason);
        }
    }

    fn derive_defaults(&mut self, settings: &mut Settings) {
        let (node, lease, resubmit) = (&settings.node, &mut settings.lease, &mut settings.resubmit);
        if !self.values.is_given("node_name") {
            self.values.derive("node_name", node.node_name.0.clone());
        }
        if !self.values.is_given("advertise_url") {
            let url = own_url(node.listen, &node.node_name.0, settings.tls.is_on());
            self.values.derive("advertise_url", url);
        }
        const SKEW: &str = "lease.clock_skew_allowance";
        if !self.values.is_given(SKEW) && lease.clock_skew_allowance > lease.duration / 2 {
            // Short leases are for tests and demos, which should not need a third setting.
            lease.clock_skew_allowance = lease.duration / 2;
            self.values.derive(SKEW, duration_text(lease.clock_skew_allowance));
        }
        const MAX: &str = "resubmit.interval_max";
        if !self.values.is_given(MAX) && resubmit.interval_max < resubmit.interval {
            resubmit.interval_max = resubmit.interval;
            self.values.derive(MAX, duration_text(resubmit.interval));
        }
    }

    fn chain(&mut self, settings: &Settings) {
        const URLS: &str = "chain.rpc_urls";
        let chain = &settings.chain;
        if !chain.rpc_urls.is_empty() && !self.is_refused(URLS) {
            for reason in missing_roles(&chain.rpc_urls) {
                self.refuse(URLS, reason);
            }
        }
        let has_other_role =
            |endpoint: &EndpointConfig| !matches!(endpoint.role, Role::Full | Role::Private);
        if chain.private_rpc_urls.iter().any(has_other_role) {
            let reason =
                "every endpoint here is private: leave out role, or move it to chain.rpc_urls";
            self.refuse("chain.private_rpc_urls", reason);
        }
        let plain = |endpoint: &EndpointConfig| endpoint.url.trim_end_matches('/').to_owned();
        let public: Vec<_> =
            chain.rpc_urls.iter().filter(|end| end.role != Role::Private).map(plain).collect();
        if chain.private_rpc_urls.iter().any(|endpoint| public.contains(&plain(endpoint))) {
            let reason = "an endpoint is in chain.rpc_urls as well: what is private would reach a \
                          public endpoint";
            self.refuse("chain.private_rpc_urls", reason);
        }
        if chain.send_patience >= chain.send_deadline {
            let reason = format!(
                "chain.send_patience ({}) must be below chain.send_deadline ({})",
                duration_text(chain.send_patience),
                duration_text(chain.send_deadline)
            );
            self.refuse_pair("chain.send_patience", "chain.send_deadline", reason);
        }
        let senders = chain.rpc_urls.iter().filter(|end| takes_public(end)).count();
        if chain.fan_out > senders && senders > 0 {
            let reason =
                format!("is {}, but only {senders} endpoints take transactions", chain.fan_out);
            self.refuse("chain.fan_out", reason);
        }
        // I16: there are caps by default.
        for (name, is_off) in [
            ("chain.max_fee_per_gas", chain.max_fee_per_gas.0.is_none()),
            ("chain.max_tx_fee", chain.max_tx_fee.0.is_none()),
        ] {
            if is_off {
                let reason = "is turned off: endpoints that are wrong together can set any fee";
                self.warn(name, reason);
            }
        }
    }

    fn keys(&mut self, settings: &Settings) {
        let has_password = self.values.is_given("keys.keystore_password")
            || self.values.is_given("keys.keystore_password_file");
        match (&settings.keys.keystore, has_password) {
            (Some(_), false) => self.refuse(
                "keys.keystore",
                "needs a password: give --keystore-password-file or TOLLGATE_KEYSTORE_PASSWORD",
            ),
            (None, true) if !self.values.is_given("keys.keystore") => {
                self.refuse("keys.keystore_password", "needs keys.keystore, which is not given");
            }
            _ => {}
        }
    }

    fn lease(&mut self, settings: &Settings) {
        let lease = &settings.lease;
        let (duration, skew) = (lease.duration, lease.clock_skew_allowance);
        if lease.renew_interval >= duration / 2 {
            let reason = format!(
                "lease.renew_interval ({}) must be below half of lease.duration ({}), so that a \
                 lease survives one lost renewal",
                duration_text(lease.renew_interval),
                duration_text(duration)
            );
            self.refuse_pair("lease.renew_interval", "lease.duration", reason);
        }
        if skew >= duration {
            let (skew, duration) = (duration_text(skew), duration_text(duration));
            let reason = format!("{skew} must be below lease.duration ({duration})");
            self.refuse_pair("lease.clock_skew_allowance", "lease.duration", reason);
        }
    }

    fn stuck(&mut self, settings: &Settings) {
        let strict = match settings.submitter.mode {
            Mode::Strict => Some(("submitter.mode", "submitter.mode strict")),
            Mode::Pipelined if settings.submitter.strict.is_empty() => None,
            Mode::Pipelined => Some(("submitter.strict", "submitter.strict")),
        };
        if let (Some((name, words)), RejectedSlot::Recycle) = (strict, settings.stuck.rejected_slot)
        {
            let reason = format!(
                "stuck.rejected_slot recycle is not allowed with {words}: a slot that is given to \
                 a second transaction is not strict"
            );
            self.refuse_pair("stuck.rejected_slot", name, reason);
        }
        let (resubmit, reservations) = (&settings.resubmit, &settings.reservations);
        self.refuse_above(
            ("reservations.hold", reservations.hold),
            ("reservations.hold_max", reservations.hold_max),
        );
        self.refuse_above(
            ("resubmit.interval", resubmit.interval),
            ("resubmit.interval_max", resubmit.interval_max),
        );
        let (permille, percent) =
            (settings.gasbump.multiplier.0, settings.gasbump.replacement_percent);
        if permille < 1_000 + percent * 10 {
            let name = self.given_of("gasbump.multiplier", "gasbump.replacement_percent");
            let reason = format!(
                "gasbump.multiplier is below what gasbump.replacement_percent ({percent}) requires, \
                 which is offered instead"
            );
            self.warn(name, &reason);
        }
    }

    /// The URL that other nodes call: they send it callers' requests, and no password.
    fn advertise_url(&mut self, settings: &Settings) {
        let Some(url) = &settings.node.advertise_url else { return };
        match http_url(url.as_str()) {
            Err(bad) => self.refuse("advertise_url", bad.to_string()),
            Ok(url) if names_link_local(&url) => self.refuse(
                "advertise_url",
                "is a link-local address, which other nodes never call: give a name or another address",
            ),
            Ok(_) => {}
        }
    }

    fn hook(&mut self, settings: &Settings) {
        const URL: &str = "stuck.hook.url";
        const SECRET: &str = "stuck.hook.secret";
        let hook = &settings.hook;
        let url = hook.url.as_ref().and_then(|url| http_url(&url.0).ok());
        if !hook.allow_link_local && url.is_some_and(|url| names_link_local(&url)) {
            let reason = "is a link-local address, where clouds serve the credentials of the machine: set \
                          stuck.hook.allow_link_local if the hook is there";
            self.refuse(URL, reason);
        }
        let has_secret =
            self.values.is_given(SECRET) || self.values.is_given("stuck.hook.secret_file");
        match (self.values.is_given(URL), has_secret) {
            (true, false) => self.refuse(
                URL,
                "needs a secret: give stuck.hook.secret_file or TOLLGATE_STUCK_HOOK_SECRET",
            ),
            (false, true) => self.refuse(SECRET, "needs stuck.hook.url, which is not given"),
            (true, true) | (false, false) => {}
        }
    }

    /// Nothing is dropped by accident: what becomes of removed transactions is said in as many words.
    fn retention(&mut self, settings: &Settings) {
        const FINISHED_AFTER: &str = "retention.finished_after";
        const ARCHIVE_DIR: &str = "retention.archive_dir";
        let retention = &settings.retention;
        let Some(Age(finished_after)) = retention.finished_after else { return };
        let has_folder = retention.archive_dir.is_some();
        match (retention.mode, has_folder) {
            (None, _) if !self.is_refused("retention.mode") => self.refuse(
                FINISHED_AFTER,
                "needs retention.mode: archive, with retention.archive_dir, or drop",
            ),
            (Some(RetentionMode::Archive), false) if !self.is_refused(ARCHIVE_DIR) => {
                self.refuse("retention.mode", "archive needs retention.archive_dir");
            }
            (Some(RetentionMode::Drop), true) => {
                self.refuse(ARCHIVE_DIR, "contradicts retention.mode, which is drop");
            }
            _ => {}
        }
        if let Some(Age(request_ids)) = retention.request_ids {
            let kept = ("retention.request_ids", request_ids);
            self.refuse_above((FINISHED_AFTER, finished_after), kept);
        }
    }

    fn refuse_above(&mut self, (name, value): (&str, Duration), (max_name, max): (&str, Duration)) {
        if value > max {
            let (value, max) = (duration_text(value), duration_text(max));
            let reason = format!("{name} ({value}) must not be above {max_name} ({max})");
            self.refuse_pair(name, max_name, reason);
        }
    }

    fn warn_of_settings_without_effect(&mut self, settings: &Settings) {
        let used = match settings.database.url.sqlite_file() {
            Some(_) => AppliesTo::Sqlite,
            None => AppliesTo::Postgres,
        };
        for key in KEYS.iter() {
            if ![AppliesTo::Any, used].contains(&key.field.applies_to) {
                self.warn_if_changed(key, "has no effect with this database.url".to_owned());
            }
            let needs = key.field.needs;
            match find(needs).map(|needed| needed.field.value_type.is_switch()) {
                Some(true) if !self.values.is_on(needs) => {
                    self.warn_if_changed(key, format!("has no effect while {needs} is false"));
                }
                Some(false) if !self.values.is_given(needs) => {
                    self.warn_if_changed(key, format!("has no effect without {needs}"));
                }
                _ => {}
            }
        }
    }

    /// Each of several chains once, and no chain beside them.
    fn chains(&mut self, settings: &Settings) {
        let entries = &settings.node.chains;
        for (place, entry) in entries.iter().enumerate() {
            let before = &entries[..place];
            if before.iter().any(|other| other.id == entry.id) {
                self.refuse("chains", format!("chain {} is given twice", entry.id));
            }
            if before.iter().any(|other| other.name == entry.name) {
                self.refuse("chains", format!("the name {:?} is given twice", entry.name));
            }
            for reason in missing_roles(&entry.rpc_urls) {
                self.refuse("chains", format!("chain {}: {reason}", entry.id));
            }
            let mode = entry.mode.unwrap_or(settings.submitter.mode);
            let is_recycling = settings.stuck.rejected_slot == RejectedSlot::Recycle;
            if mode == Mode::Strict && is_recycling {
                let reason = format!(
                    "chain {}: strict submitters can't recycle slots: see stuck.rejected_slot",
                    entry.id
                );
                self.refuse("chains", reason);
            }
        }
        let alone = [
            "chain.rpc_urls",
            "chain.rpc_urls_file",
            "chain.private_rpc_urls",
            "chain.private_rpc_urls_file",
            "chain.id",
        ];
        if let Some(name) = alone.iter().find(|name| self.values.is_given(name))
            && !entries.is_empty()
        {
            self.refuse(name, "the chains are given by [[chains]]: add this one to them");
        }
    }

    /// Rules for a node that serves.
    fn serve(&mut self, settings: &Settings) {
        let is_given = |name: &&str| self.values.is_given(name);
        if !["chain.rpc_urls", "chain.rpc_urls_file", "chains"].iter().any(is_given) {
            let reason = "no chain: give --rpc-url, TOLLGATE_RPC_URL, chain.rpc_urls or [[chains]]";
            self.refuse("chain.rpc_urls", reason);
        }
        let sources =
            ["keys.private_keys", "keys.private_key_files", "keys.keystore", "submitter.presigned"];
        let is_given = |name: &&str| self.values.is_given(name);
        if !sources.iter().any(is_given) {
            let reason = "no keys: give --private-key-file, --keystore or TOLLGATE_PRIVATE_KEYS";
            self.refuse("keys", reason);
        }
        let node = &settings.node;
        let listens = [Some(node.listen), settings.operators.listen];
        let open = listens.into_iter().flatten().find(|address| !address.ip().is_loopback());
        if let Some(open) = open
            && node.no_auth
            && !node.allow_unauthenticated_network
        {
            let reason = format!(
                "everybody who can reach {open} could spend from the accounts, without any key: \
                 listen on loopback, or add --allow-unauthenticated-network if that network is \
                 trusted"
            );
            self.refuse("no_auth", reason);
        }
    }
}

fn takes_public(endpoint: &EndpointConfig) -> bool {
    matches!(endpoint.role, Role::Full | Role::SendOnly)
}

/// The reasons for which a chain with these endpoints can't be used.
fn missing_roles(endpoints: &[EndpointConfig]) -> Vec<&'static str> {
    let is_all = |role: Role| endpoints.iter().all(|endpoint| endpoint.role == role);
    let answers_reads =
        |endpoint: &EndpointConfig| matches!(endpoint.role, Role::Full | Role::ReadOnly);
    let unread = match is_all(Role::SendOnly) {
        true => "every endpoint is send_only: the chain could not be read",
        false => "no endpoint answers reads: send_only and private ones don't",
    };
    let unsent = match is_all(Role::ReadOnly) {
        true => "every endpoint is read_only: nothing could be sent",
        false => "no endpoint takes public transactions: private ones take private ones alone",
    };
    let unread = (!endpoints.iter().any(answers_reads)).then_some(unread);
    let unsent = (!endpoints.iter().any(takes_public)).then_some(unsent);
    unread.into_iter().chain(unsent).collect()
}
