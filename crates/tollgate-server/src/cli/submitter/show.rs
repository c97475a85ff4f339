//! Prints submitters as tables.

use std::time::Duration;

use tollgate_api::{Submitter, format_eth};

use crate::cli::table::{Fields, Table, cell};
use crate::cli::tx::show::blocked_by;
use crate::cli::units::{gwei, short_duration};

/// A list of submitters.
pub(super) fn table(items: &[Submitter]) -> Table {
    let mut table = Table::new(["ADDRESS", "STATUS", "MODE", "NEXT", "OPEN", "OLDEST", "OWNER"])
        .shortens(&["ADDRESS"])
        .cuts(&["OWNER"]);
    for one in items {
        table.row([
            one.address.clone(),
            one.status.to_string(),
            one.mode.to_string(),
            cell(one.next_nonce.as_ref()),
            one.depth.values().sum::<u64>().to_string(),
            cell(one.oldest_pending_seconds.map(seconds).as_ref()),
            cell(one.owner.as_ref()),
        ]);
    }
    table
}

fn seconds(seconds: u64) -> String {
    short_duration(Duration::from_secs(seconds))
}

/// One submitter.
pub(super) fn fields(one: &Submitter) -> Fields {
    let mut fields = Fields::default();
    fields.add("submitter", &one.address);
    fields.add("chain", one.chain_id);
    fields.add("status", &one.status);
    fields.add_some("reason", one.status_reason.as_ref());
    fields.add_some("blocked by", one.blocked_by.as_ref().map(blocked_by));
    fields.add_some("label", one.label.as_ref());
    fields.add_some("key", one.key.as_ref());
    if !one.enabled {
        fields.add("disabled", "new transactions are refused");
    }
    fields.add("mode", &one.mode);
    fields.add("window", format!("{} (of the {})", one.window, one.settings.window.from));
    let (price, fee) = (&one.settings.max_fee_per_gas, &one.settings.max_tx_fee);
    let shown = |value: String, from: &str| format!("{value} (of the {from})");
    let price = price.value.as_deref().map(|value| shown(gwei(value), &price.from));
    fields.add_some("max fee per gas", price);
    let fee = fee.value.as_deref().map(|value| shown(format_eth(value), &fee.from));
    fields.add_some("max tx fee", fee);
    fields.add_some("max value", one.settings.max_value.as_deref().map(format_eth));
    fields.add_some("allowed calls", one.settings.allowed_calls.as_ref().map(|it| it.join(" ")));
    fields.add_some("owner", one.owner.as_ref());
    fields.add_some("token", one.fencing_token);
    fields.add_some("next nonce", one.next_nonce);
    fields.add_some("chain nonce", one.chain_nonce);
    for state in ["QUEUED", "ALLOCATED", "TRACKING", "STUCK"] {
        fields.add_some(&state.to_lowercase(), one.depth.get(state));
    }
    fields.add_some("oldest", one.oldest_pending_seconds.map(seconds));
    fields.add_some("holes", holes(one));
    fields.add_some("balance", one.balance.as_deref().map(format_eth));
    fields
}

/// The nonces of holes, and how many more there are; "none" if the chain was asked and waits for nothing.
fn holes(one: &Submitter) -> Option<String> {
    let shown = one.holes.as_ref()?;
    let nonces = shown.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let more = one.hole_count.unwrap_or_default().saturating_sub(shown.len() as u64);
    Some(match (shown.len(), more) {
        (0, 0) => "none".to_owned(),
        (1, 0) => format!("nonce {nonces}"),
        (_, 0) => format!("nonces {nonces}"),
        (_, more) => format!("nonces {nonces} and {more} more"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::cli::table::WIDTH;

    fn sample() -> Submitter {
        let setting = |value: &str| json!({"value": value, "from": "node"});
        let sample = json!({
            "chainId": 31_337, "address": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
            "label": "热钱包 ".repeat(30), "key": "hd:7", "enabled": true, "mode": "pipelined", "status": "PROTECT",
            "settings": {
                "window": setting("64"), "maxFeePerGas": setting("1000000000000"),
                "maxTxFee": setting("1000000000000000000"), "maxValue": null, "allowedCalls": null,
            },
            "statusReason": "链上计数与本地不一致，需要人工核对".repeat(5),
            "owner": "tollgate-prod-eu-west-1a-7d9f/0198c0de7a11700080000000000cafe0",
            "ownerUrl": null, "fencingToken": 17, "nextNonce": 12_345_678, "chainNonce": 12_345_600, "window": 64,
            "depth": {"QUEUED": 100_000, "ALLOCATED": 0, "TRACKING": 12, "STUCK": 1},
            "oldestPendingSeconds": 7_300, "holes": [7, 8], "holeCount": 12,
            "blockedBy": {"txId": "0198c0de-7a11-7000-8000-00000000cafe", "nonce": 7, "reason": "grey_zone"},
            "balance": "9998499979000000000000",
        });
        serde_json::from_value(sample).unwrap()
    }

    #[test]
    fn submitters_fit_the_list_with_address_and_owner_shortened() {
        let lines = table(&[sample()]).lines();
        assert!(lines.iter().all(|line| line.width() <= WIDTH), "{lines:#?}");
        assert!(lines[1].starts_with("0xf39Fd6…2266  PROTECT  pipelined  12345678  100013  2h"));
        assert!(lines[1].contains("tollgate-prod"), "{lines:#?}");
    }

    #[test]
    fn one_submitter_fits_and_shows_gwei_and_eth() {
        let lines = fields(&sample()).lines();
        assert!(lines.iter().all(|line| line.width() <= WIDTH), "{lines:#?}");
        let shown = lines.join("\n");
        for part in ["1000 gwei (of the node)", "1 eth (of the node)", "9998.499979 eth", "2h"] {
            assert!(shown.contains(part), "no {part:?} in\n{shown}");
        }
    }
}
