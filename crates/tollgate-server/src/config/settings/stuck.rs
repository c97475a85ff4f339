//! Settings for transactions that make no progress: resends, fee bumps, the stuck policy.

use std::time::Duration;

use tollgate_hook::HookSecret;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::stuck::rules::{RuleSpec, StuckRules};

use crate::config::field::Field;
use crate::config::table::{Context, EntryForm, entry_types, settings};
use crate::config::types::{HookUrl, Permille};
use crate::config::value::{SourcedValue, Value};
use crate::config::value_type::{SettingType, ValueType, list_items};

settings! {
    /// Resends of unchanged transactions.
    struct ResubmitSettings {
        /// Time after a send at which a transaction without a receipt is sent again: the first pause.
        interval: Duration = "30s", min = "100ms", flag = "resubmit-interval";
        /// The longest pause between two sends, before jitter. Must not be below
        /// `resubmit.interval`; if it is not set, it is at least that.
        interval_max: Duration = "5m", min = "100ms";
        /// Length of each pause in percent of the one before. 100 keeps the pause constant.
        backoff_percent: u32 = "150", range = (100, 1_000);
        /// The most by which a pause is lengthened at random, in percent, so that transactions sent
        /// together are not resent together.
        jitter_percent: u32 = "20", range = (0, 100);
        /// Resends without a receipt after which the first transaction in line becomes STUCK and
        /// the stuck policy is asked.
        max_attempts: u32 = "20", range = (1, 1_000_000);
    }

    /// Transactions without a receipt.
    struct TimeoutSettings {
        /// Time without a receipt after which the first transaction in line becomes STUCK and the
        /// stuck policy is asked. The transaction is never dropped. Off if not set.
        transaction: Option<Duration>, min = "100ms", example = "\"1h\"";
    }

    /// Sends with an unknown outcome.
    struct GreyZoneSettings {
        /// Time after which the first transaction in line becomes STUCK, and the stuck policy is
        /// asked, if it is still unknown whether any node has the transaction.
        timeout: Duration = "10m", min = "100ms";
        /// Blocks read at a time to find the transaction that used a slot, if an endpoint has no
        /// historical state. The next search continues below them.
        lookback_blocks: u64 = "256", range = (1, 100_000);
    }

    /// Private transactions.
    struct PrivateSettings {
        /// Interval at which a private transaction without a receipt is sent to private endpoints again. It does
        /// not grow: relays drop a transaction after some blocks.
        resend_interval: Duration = "12s", min = "100ms";
        /// Time without a receipt after which a private transaction that is the first in line becomes STUCK
        /// and the stuck policy is asked. It is still sent to private endpoints.
        stuck_after: Duration = "10m", min = "100ms";
    }

    /// Fee bumps.
    struct GasBumpSettings {
        /// Raise the fee of the first transaction in line when its price delays it.
        enabled: bool = "false", flag = "gasbump";
        /// Factor from one offer to the next, with at most three decimals; also used when a person
        /// or a policy asks for a bump. At least what replacement needs is offered.
        multiplier: Permille = "1.125";
        /// By how many percent price and tip must rise before this chain's nodes replace a
        /// transaction.
        replacement_percent: u32 = "10", range = (0, 1_000);
        /// The shortest time between two bumps of a transaction.
        min_interval: Duration = "1m", min = "100ms", needs = "gasbump.enabled";
        /// The most bumps of one transaction; then its fee stays as it is.
        max_attempts: u16 = "10", range = (1, 1_000), needs = "gasbump.enabled";
    }

    /// Cancellations.
    struct CancelSettings {
        /// Let a cancellation or a placeholder offer more than `maxFeePerGas` of the
        /// create. If not, one that would have to is refused. `chain.max_fee_per_gas` and
        /// `chain.max_tx_fee` hold in any case.
        may_exceed_cap: bool = "false";
    }

    /// Looks into the nodes' pools.
    struct DiagnoseSettings {
        /// Look up the first transaction in line in the nodes' pools. The result is shown with the
        /// transaction, and rules may refer to it.
        enabled: bool = "false", flag = "diagnose";
        /// Interval between two looks.
        interval: Duration = "15s", min = "100ms", needs = "mempool.diagnose.enabled";
    }

    /// The stuck policy.
    struct StuckSettings {
        /// Time at the head of its submitter's line without a receipt after which the stuck policy
        /// is asked about a transaction.
        head_after: Duration = "5m", min = "100ms";
        /// Number of transactions behind the head from which the stuck policy is asked. 0 turns this
        /// off.
        backlog_depth: u64 = "5000", range = (0, 1_000_000_000);
        /// Waiting time of a transaction from which the stuck policy is asked. `0s` turns this off.
        backlog_age: Duration = "15m";
        /// The shortest time between two questions about one transaction.
        ask_interval: Duration = "1m", min = "100ms";
        /// Use of the slot of a transaction that every node rejects, and of a nonce gap.
        /// `hold`: it stays for a person to decide, and everything behind it waits. `placeholder`: a
        /// self-transfer closes it. `recycle`: the next transaction gets it if it is proven that no
        /// node ever accepted one for it; not allowed with strict submitters.
        rejected_slot: RejectedSlot = "placeholder";
        /// Rules of the built-in policy, at most 100. The first that matches decides, see
        /// [stuck](decisions.md#stuck). Also as `[[stuck.rules]]`.
        rules: StuckRules, example = "[{ reason = \"expired\", action = \"cancel\" }]";
    }

    /// The policy behind a URL.
    struct HookSettings {
        /// URL that decides if no rule matches, see [the stuck hook](stuck-hook.md).
        url: Option<HookUrl>, example = "\"https://hooks.example.com/stuck\"";
        /// Secret that signs the questions: `whsec_` and 24 to 64 bytes in base64.
        secret: Option<HookSecret>, has_file = true, example = "\"whsec_…\"";
        /// The longest time for one try. Without an answer nothing is done, and an alert is raised.
        timeout: Duration = "5s", min = "10ms", needs = "stuck.hook.url";
        /// Tries after the first, if it got no answer, 429 or 5xx.
        retries: u32 = "2", range = (0, 10), needs = "stuck.hook.url";
        /// Allow a link-local address (169.254.0.0/16, fe80::/10), where clouds serve the credentials of the
        /// machine.
        allow_link_local: bool = "false", needs = "stuck.hook.url";
    }

    /// Comparison with the chain.
    struct ReconcileSettings {
        /// Interval at which the chain's count, the cursor and the open slots are compared, besides at each
        /// takeover.
        interval: Duration = "5m", min = "100ms";
    }

    fields of RuleSpec {
        /// Trigger of the question.
        trigger: Option<String>;
        /// Reason of the state STUCK.
        reason: Option<String>;
        /// Class of the last send answer.
        last_answer: Option<String>;
        /// Result of the look into the pools.
        diagnosis: Option<String>;
        /// Seconds since the transaction was created.
        age_at_least_seconds: Option<u64>;
        /// Transactions waiting behind it.
        depth_at_least: Option<u64>;
        /// Attempts of the transaction.
        attempts_at_least: Option<u16>, range = (0, 65_535);
        /// Action to take.
        action: String;
    }
}

entry_types! {
    RuleSpec: EntryForm {
        noun: "a rule",
        list_words: "list of rules",
        example: "{ reason = \"expired\", action = \"cancel\" }",
        may_be_text: false,
    };
}

impl SettingType for StuckRules {
    const TYPE: ValueType = Vec::<RuleSpec>::TYPE;

    fn read(value: &SourcedValue, field: &Field, context: &mut Context<'_>) -> Option<Self> {
        let mut specs = Vec::new();
        for (number, item) in (1..).zip(list_items(value, field, context)?) {
            specs.extend(rule(number, item, field, context));
        }
        Self::parse(&specs).map_err(|bad| context.refuse(&value.source, bad.problem)).ok()
    }

    fn absent() -> Option<Self> {
        Some(Self::default())
    }
}

/// Reads one rule. The model decides which words and combinations are allowed.
fn rule(
    number: usize,
    item: &SourcedValue,
    field: &Field,
    context: &mut Context<'_>,
) -> Option<RuleSpec> {
    let spec = RuleSpec::read(item, field, context)?;
    let Err(bad) = StuckRules::parse(std::slice::from_ref(&spec)) else { return Some(spec) };
    let entry = match &item.value {
        Value::Table(entries) => entries.iter().find(|entry| entry.name == bad.field),
        _ => None,
    };
    let source = entry.map_or(&item.source, |entry| &entry.value.source);
    context.refuse(source, format!("rule {number}: {}: {}", bad.field, bad.problem));
    None
}
