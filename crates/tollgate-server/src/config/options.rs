//! The options of the engine and of the policies, made from the settings.

use tollgate_engine::{EngineOptions, ReservationLimits};
use tollgate_hook::{BadHook, HookOptions};
use tollgate_model::bump::{BumpRules, ClosingPrice};
use tollgate_model::fees::FeeCaps;
use tollgate_model::ids::InvalidValue;
use tollgate_model::nonce::NonceRules;
use tollgate_model::port::LeaseTerms;
use tollgate_model::refusal::TxLimitSettings;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::stuck::StuckThresholds;

use super::settings::Settings;

impl Settings {
    pub(crate) fn engine_options(&self) -> Result<EngineOptions, InvalidValue> {
        let (lease, submitter, chain) = (&self.lease, &self.submitter, &self.chain);
        let reservations = &self.reservations;
        Ok(EngineOptions {
            lease: LeaseTerms::new(
                lease.duration,
                lease.renew_interval,
                lease.clock_skew_allowance,
            )?,
            lease_idle: lease.idle_timeout,
            batch_max: self.writer.batch_max,
            events: self.events.written(),
            queued_max: submitter.max_queued,
            nonces: NonceRules {
                mode: submitter.mode,
                window: submitter.window,
                unfinal_max: submitter.unfinal_max,
                strict_advance: self.strict.advance,
                state_timeout: self.nonce.state_timeout,
            },
            finality: self.node.finality,
            resubmit: self.resubmit_rules(),
            stuck: StuckThresholds {
                head_after: self.stuck.head_after,
                backlog_depth: Some(self.stuck.backlog_depth).filter(|depth| *depth > 0),
                backlog_age: Some(self.stuck.backlog_age).filter(|age| !age.is_zero()),
                ask_interval: self.stuck.ask_interval,
            },
            rejected_slot: self.stuck.rejected_slot,
            reconcile_interval: self.reconcile.interval,
            lookback_blocks: self.grey_zone.lookback_blocks,
            diagnose: self.diagnose.enabled.then_some(self.diagnose.interval),
            reservations: reservations.enabled.then_some(ReservationLimits {
                hold: reservations.hold,
                hold_max: reservations.hold_max,
                outstanding_max: reservations.max_outstanding,
            }),
            fee_caps: FeeCaps {
                max_fee_per_gas: chain.max_fee_per_gas.0,
                max_tx_fee: chain.max_tx_fee.0,
            },
            tx_limits: TxLimitSettings {
                gas: chain.max_tx_gas,
                initcode_bytes: chain.max_initcode_bytes,
                bytes: chain.max_tx_bytes,
            },
            closing_price: match self.cancel.may_exceed_cap {
                true => ClosingPrice::MayExceedCallersCap,
                false => ClosingPrice::WithinCallersCap,
            },
            presigned: submitter.presigned.clone(),
            balance_interval: Some(self.metrics.balance_interval).filter(|every| !every.is_zero()),
            ..EngineOptions::default()
        })
    }

    /// The settings that would switch something on that is off.
    pub(crate) fn switched_off(&self) -> Vec<&'static str> {
        let switches = [
            ("tls.cert_file", self.tls.is_on()),
            ("gasbump.enabled", self.gasbump.enabled),
            ("mempool.diagnose.enabled", self.diagnose.enabled),
            ("reservations.enabled", self.reservations.enabled),
            ("retention.finished_after", self.retention.finished_after.is_some()),
            ("stuck.hook.url", self.hook.url.is_some()),
            ("metrics.per_submitter", self.metrics.per_submitter),
            ("metrics.balance_interval", !self.metrics.balance_interval.is_zero()),
        ];
        switches.into_iter().filter(|(_, is_on)| !is_on).map(|(name, _)| name).collect()
    }

    fn resubmit_rules(&self) -> ResubmitRules {
        ResubmitRules {
            interval: self.resubmit.interval,
            backoff_percent: self.resubmit.backoff_percent,
            interval_max: self.resubmit.interval_max,
            jitter_percent: self.resubmit.jitter_percent,
            max_attempts: self.resubmit.max_attempts,
            timeout: self.timeout.transaction,
            grey_zone_timeout: self.grey_zone.timeout,
            private_interval: self.private.resend_interval,
            private_stuck_after: self.private.stuck_after,
        }
    }

    pub(crate) fn bump_rules(&self) -> BumpRules {
        BumpRules {
            enabled: self.gasbump.enabled,
            multiplier_permille: self.gasbump.multiplier.0,
            replacement_percent: self.gasbump.replacement_percent,
            min_interval: self.gasbump.min_interval,
            max_attempts: self.gasbump.max_attempts,
        }
    }

    /// The stuck hook, if there is one.
    pub(crate) fn hook_options(&self) -> Result<Option<HookOptions>, BadHook> {
        let hook = &self.hook;
        let (Some(url), Some(secret)) = (&hook.url, &hook.secret) else { return Ok(None) };
        let options = HookOptions::new(&url.0, secret.clone())?;
        let options = options.with_patience(hook.timeout, hook.retries);
        Ok(Some(options.with_link_local(hook.allow_link_local)))
    }
}
