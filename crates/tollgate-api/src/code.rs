//! Every public error code in one table: name on the wire, HTTP status, whether the same call can
//! succeed later, title, page.
//!
//! A code without a page in `docs/errors/` does not compile; a page without a code fails the test
//! below.

use std::borrow::Cow;

use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::schema::names;

macro_rules! codes {
    ($($variant:ident $name:literal $status:literal $retryable:literal $title:literal;)+) => {
        /// A public error code. Callers switch on its name, so a name never changes its meaning.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum ErrorCode {
            $(#[doc = $title] $variant,)+
        }

        impl ErrorCode {
            /// Every code there is.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The HTTP status that it always comes with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// The same call can succeed later. If so, the answer has `Retry-After`.
            pub const fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable,)+ }
            }

            /// The meaning, in a few words.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// Its page, as Markdown.
            pub const fn page(self) -> &'static str {
                match self {
                    $(Self::$variant => {
                        include_str!(concat!("../../../docs/errors/", $name, ".md"))
                    })+
                }
            }
        }
    };
}

// variant, name, status, retryable, title
codes! {
    InvalidRequest "invalid_request" 400 false "Malformed HTTP request";
    HeadTooLarge "head_too_large" 431 false "The request head is too large";
    InvalidJson "invalid_json" 400 false "The body is not JSON";
    UnreadableBody "unreadable_body" 400 false "The body could not be read";
    InvalidPath "invalid_path" 400 false "The path is not valid UTF-8";
    Unauthenticated "unauthenticated" 401 false "No valid API key";
    Forbidden "forbidden" 403 false "The API key does not allow this";
    RateLimited "rate_limited" 429 true "Too many requests of this API key";
    NotFound "not_found" 404 false "Not found";
    MethodNotAllowed "method_not_allowed" 405 false "Method not allowed";
    HostNotAllowed "host_not_allowed" 421 false "Host not allowed";
    CrossOrigin "cross_origin" 403 false "Cross-origin request refused";
    UnsupportedMediaType "unsupported_media_type" 415 false "Content type or encoding not supported";
    RequestTimeout "request_timeout" 408 true "Request timeout";
    BodyTooLarge "body_too_large" 413 false "The body is too large";
    InvalidBody "invalid_body" 422 false "Invalid body";
    MissingField "missing_field" 422 false "A required field is missing";
    InvalidField "invalid_field" 422 false "Invalid field value";
    InvalidAddress "invalid_address" 422 false "Invalid address";
    InvalidNumber "invalid_number" 422 false "Invalid number";
    InvalidHex "invalid_hex" 422 false "Invalid hex";
    InvalidTime "invalid_time" 422 false "Invalid time";
    InvalidFees "invalid_fees" 422 false "The fees contradict each other";
    InvalidRequestId "invalid_request_id" 422 false "Invalid request id";
    RequestIdMismatch "request_id_mismatch" 422 false "requestId and Idempotency-Key differ";
    MetadataTooLarge "metadata_too_large" 422 false "The metadata is too large";
    InvalidBatch "invalid_batch" 422 false "Invalid number of batch items";
    InvalidRawTx "invalid_raw_tx" 422 false "Invalid signed transaction";
    NonceMismatch "nonce_mismatch" 422 false "The nonce of the signed transaction is not the next one";
    AuthorizationRefused "authorization_refused" 422 false "Authorization not accepted";
    AuthorizationEarly "authorization_early" 409 true "The authority's earlier transactions are not mined yet";
    Expired "expired" 422 false "validUntil has passed";
    NoPrivateEndpoint "no_private_endpoint" 422 false "The chain has no private endpoint";
    WrongChain "wrong_chain" 422 false "Wrong chain";
    SubmitterDisabled "submitter_disabled" 422 false "The account is disabled";
    UnknownSubmitter "unknown_submitter" 422 false "Unknown submitter";
    FeeTooLowToReplace "fee_too_low_to_replace" 422 false "Fee too low to replace the transaction";
    WouldRevert "would_revert" 422 false "The call would revert";
    InsufficientFunds "insufficient_funds" 422 false "Insufficient funds";
    GasTooLow "gas_too_low" 422 false "Gas limit below the intrinsic cost";
    GasAboveBlockLimit "gas_above_block_limit" 422 false "Gas limit above the block gas limit";
    GasAboveTxLimit "gas_above_tx_limit" 422 false "Gas limit above the chain's limit for one transaction";
    TxTooLarge "tx_too_large" 422 false "Transaction too large";
    FeeCapTooLow "fee_cap_too_low" 422 false "Fee cap far below the base fee";
    ValueAboveCap "value_above_cap" 422 false "Value above the account's cap";
    CallNotAllowed "call_not_allowed" 422 false "The account may not make this call";
    InvalidTransaction "invalid_transaction" 422 false "Invalid transaction";
    InvalidQuery "invalid_query" 422 false "Invalid query parameter";
    InvalidLimit "invalid_limit" 422 false "Invalid limit";
    InvalidCursor "invalid_cursor" 422 false "Invalid cursor";
    InvalidDuration "invalid_duration" 422 false "Invalid duration";
    InvalidState "invalid_state" 422 false "Invalid state";
    InvalidTxId "invalid_tx_id" 422 false "Invalid transaction id";
    CursorAhead "cursor_ahead" 409 false "The cursor is beyond the end of the feed";
    CursorRemoved "cursor_removed" 410 false "The cursor is before the oldest entry of the feed";
    TxRemoved "tx_removed" 410 false "The transaction was removed from the database";
    RequestIdConflict "request_id_conflict" 409 false "The request id is in use with another payload";
    TxNotAllocated "tx_not_allocated" 409 true "The transaction has no nonce yet";
    TxMined "tx_mined" 409 false "The transaction is already mined";
    TxFinal "tx_final" 409 false "The transaction is final";
    TxClosing "tx_closing" 409 false "The transaction is being cancelled";
    NoKey "no_key" 409 false "No key to sign with";
    SignedByCaller "signed_by_caller" 409 false "The transaction was signed by the caller";
    PayloadFixed "payload_fixed" 409 false "The transaction is not replaceable";
    FeeCap "fee_cap" 409 false "The replacement is above a fee cap";
    CannotResume "cannot_resume" 409 false "The submitter can't be resumed";
    KeyUnavailable "key_unavailable" 422 false "This node can't open the key";
    SubmitterExists "submitter_exists" 409 false "The account is open already";
    SubmitterBusy "submitter_busy" 409 false "The account can't be removed now";
    CannotChangeMode "cannot_change_mode" 409 false "The mode can't be changed now";
    NoncesRefused "nonces_refused" 409 false "Nonce range refused";
    ReservationsDisabled "reservations_disabled" 409 false "Nonce reservations are disabled";
    SubmitterNotActive "submitter_not_active" 409 false "The submitter is not active";
    StaleOwnerToken "stale_owner_token" 409 false "The reservation no longer belongs to the caller";
    NotOwner "not_owner" 409 true "Another node owns the submitter";
    Busy "busy" 429 true "Queue for this account is full";
    TooManyReservations "too_many_reservations" 429 true "Too many reserved nonces";
    Draining "draining" 503 true "The node is shutting down";
    TooManyConnections "too_many_connections" 503 true "Too many connections";
    Unavailable "unavailable" 503 true "Temporarily unavailable";
    StoreUnavailable "store_unavailable" 503 true "Database unavailable";
    Timeout "timeout" 503 true "Timeout";
    Internal "internal" 500 false "Internal error";
}

impl ErrorCode {
    /// The code with this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        let about = "What to switch on. A code never changes its meaning.";
        names(Self::ALL.iter().map(|code| code.name())).description(Some(about)).into()
    }
}

impl ToSchema for ErrorCode {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("ErrorCode")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages in the folder that are not about a code.
    const OTHER_PAGES: [&str; 1] = ["send-answers"];

    #[test]
    fn page_of_every_code_shows_its_title_and_status() {
        for code in ErrorCode::ALL {
            let again = if code.is_retryable() { "retryable" } else { "not retryable" };
            let head = format!(
                "# {}\n\n{}. HTTP {}, {again}.\n",
                code.name(),
                code.title(),
                code.status()
            );
            let page = code.page();
            assert!(page.starts_with(&head), "{} must begin with:\n{head}", code.name());
            for part in ["## When", "## What to do", "## Example"] {
                assert!(page.contains(part), "{} has no {part:?}", code.name());
            }
            let example = format!("\"code\": \"{}\"", code.name());
            assert!(page.contains(&example), "{} shows no answer", code.name());
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(ErrorCode::of(name).is_some() || OTHER_PAGES.contains(&name), "no code {name}");
        }
    }

    #[test]
    fn api_page_lists_every_code() {
        let page = include_str!("../../../docs/api.md");
        for code in ErrorCode::ALL {
            let name = code.name();
            let again = if code.is_retryable() { "yes" } else { "no" };
            let (status, title) = (code.status(), code.title());
            let row = format!("| [`{name}`](errors/{name}.md) | {status} | {again} | {title} |\n");
            assert!(page.contains(&row), "docs/api.md lacks\n{row}");
        }
    }

    #[test]
    fn name_belongs_to_one_code() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::of(code.name()), Some(*code));
        }
        assert_eq!(ErrorCode::of("nonsense"), None);
    }
}
