//! The settings of what is done about transactions that don't move, and about nonces that callers
//! reserve.

use super::Preset::Value;
use super::{Key, Preset, key};
use crate::config::kind::Kind;

pub(super) static KEYS: &[Key] = &[
    key(
        "resubmit.interval",
        Kind::Duration(100),
        Value("30s"),
        "How long after it was sent what no block has picked up is sent again: the first pause.",
    )
    .flag("resubmit-interval"),
    key(
        "resubmit.interval_max",
        Kind::Duration(100),
        Value("5m"),
        "The longest pause, before jitter. Not below `resubmit.interval`; where nobody sets it, at \
         least that.",
    ),
    key(
        "resubmit.backoff_percent",
        Kind::Number(100, 1_000),
        Value("150"),
        "What each pause is of the one before, in percent.",
    ),
    key(
        "resubmit.jitter_percent",
        Kind::Number(0, 100),
        Value("20"),
        "By how much a pause may be drawn out, in percent, so that what was sent together is not \
         sent again together.",
    ),
    key(
        "resubmit.max_attempts",
        Kind::Number(1, 1_000_000),
        Value("20"),
        "After so many resends without a receipt the first in line is STUCK, and the policy is asked.",
    ),
    key(
        "timeout.transaction",
        Kind::Duration(100),
        Preset::None,
        "After so long without a receipt the first in line is STUCK, and the policy is asked. It is \
         never dropped.",
    )
    .like("\"1h\""),
    key(
        "grey_zone.timeout",
        Kind::Duration(100),
        Value("10m"),
        "After so long without knowing whether a node has it the first in line is STUCK, and the \
         policy is asked.",
    ),
    key(
        "grey_zone.lookback_blocks",
        Kind::Number(1, 100_000),
        Value("256"),
        "How many whole blocks are read at a time to find the transaction that used a slot, where an \
         endpoint has no old states. The next look goes on below them.",
    ),
    key(
        "gasbump.enabled",
        Kind::Switch,
        Value("false"),
        "Offer more for the first in line when its price holds it back.",
    )
    .flag("gasbump"),
    key(
        "gasbump.multiplier",
        Kind::Factor,
        Value("1.125"),
        "What a new offer is of the last one, also when a person or a policy asks for it; never \
         below what replacement needs.",
    ),
    key(
        "gasbump.replacement_percent",
        Kind::Number(0, 1_000),
        Value("10"),
        "By how much, in percent, price and tip must rise before this chain's nodes take one \
         transaction in another's place.",
    ),
    key(
        "gasbump.min_interval",
        Kind::Duration(100),
        Value("1m"),
        "The shortest time between two offers.",
    ),
    key(
        "gasbump.max_attempts",
        Kind::Number(1, 1_000),
        Value("10"),
        "So many bumps of one transaction and no more.",
    ),
    key(
        "cancel.may_exceed_cap",
        Kind::Switch,
        Value("false"),
        "Whether what closes a slot, a cancellation or a placeholder, may offer more than \
         `maxFeePerGas` of the create. If not, it is refused where it would have to. `chain.max_fee_per_gas` \
         and `chain.max_tx_fee` are never passed.",
    ),
    key(
        "mempool.diagnose.enabled",
        Kind::Switch,
        Value("false"),
        "Look where the nodes' pools have the first in line. Advice: it is shown, and rules may \
         mention it.",
    )
    .flag("diagnose"),
    key(
        "mempool.diagnose.interval",
        Kind::Duration(100),
        Value("15s"),
        "How often the pools are looked at.",
    ),
    key(
        "stuck.head_after",
        Kind::Duration(100),
        Value("5m"),
        "After so long at the head of its submitter's line without a receipt the policy is asked \
         about a transaction.",
    ),
    key(
        "stuck.backlog_depth",
        Kind::Number(0, 1_000_000_000),
        Value("5000"),
        "The policy is asked when so many wait behind the head; 0: never for that.",
    ),
    key(
        "stuck.backlog_age",
        Kind::Duration(0),
        Value("15m"),
        "The policy is asked when one has waited for so long; `0s`: never for that.",
    ),
    key(
        "stuck.ask_interval",
        Kind::Duration(100),
        Value("1m"),
        "The shortest time between two questions about one transaction.",
    ),
    key(
        "stuck.rejected_slot",
        Kind::Choice(&["hold", "placeholder", "recycle"]),
        Value("placeholder"),
        "What becomes of the slot of a transaction that every node rejects, and of a hole: it is kept \
         for a person while everything behind it waits, closed by a transfer to self, or given to the next transaction where it is proven that no \
         node ever took it. `recycle` is not for strict mode.",
    ),
    key(
        "stuck.rules",
        Kind::Rules,
        Preset::None,
        "The built-in policy: the first rule that fits decides, see [stuck](decisions.md#stuck). Also \
         as `[[stuck.rules]]`.",
    )
    .like("[{ reason = \"expired\", action = \"cancel\" }]"),
    key(
        "stuck.hook.url",
        Kind::HookUrl,
        Preset::None,
        "Where the business decides: asked where no rule fits, see [the stuck hook](stuck-hook.md).",
    )
    .like("\"https://hooks.example.com/stuck\""),
    key(
        "stuck.hook.secret",
        Kind::Secret,
        Preset::None,
        "What its questions are signed with: `whsec_` and 24 to 64 bytes in base64.",
    )
    .like("\"whsec_…\""),
    key("stuck.hook.secret_file", Kind::Path, Preset::None, "A file that holds that secret.")
        .holds("stuck.hook.secret")
        .like("\"/run/secrets/stuck_hook\""),
    key(
        "stuck.hook.timeout",
        Kind::Duration(10),
        Value("5s"),
        "How long one try may take. Without an answer nothing is done but an alert.",
    ),
    key(
        "stuck.hook.retries",
        Kind::Number(0, 10),
        Value("2"),
        "How often a question is put again that got no answer, 429 or 5xx.",
    ),
    key(
        "reconcile.interval",
        Kind::Duration(100),
        Value("5m"),
        "How often the chain's count, the cursor and the open slots are compared, besides at each \
         takeover.",
    ),
    key(
        "reservations.enabled",
        Kind::Switch,
        Value("false"),
        "Give nonces to callers that send by themselves.",
    ),
    key(
        "reservations.hold",
        Kind::Duration(100),
        Value("1m"),
        "How long a caller may keep a nonce if it does not say.",
    ),
    key(
        "reservations.hold_max",
        Kind::Duration(100),
        Value("1h"),
        "How long it may keep one at most. Not below `reservations.hold`.",
    ),
    key(
        "reservations.max_outstanding",
        Kind::Number(1, 100_000),
        Value("64"),
        "How many of a submitter's nonces may be out at once.",
    ),
];
