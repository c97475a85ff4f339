//! Every public error code in one table: its word, its status, whether the same call can succeed
//! later, its title, its page.
//!
//! A code without a page in `docs/errors/` does not compile; a page without a code fails the test
//! below.

use axum::http::StatusCode;

macro_rules! codes {
    ($($name:ident $word:literal $status:ident $retryable:literal $title:literal;)+) => {
        /// A public error code. Callers switch on its word, so a word never changes its meaning.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Code {
            $(#[doc = $title] $name,)+
        }

        impl Code {
            /// Every code there is.
            pub(crate) const ALL: &[Self] = &[$(Self::$name),+];

            /// The word that callers see.
            pub(crate) const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            /// The status that it always comes with.
            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)+ }
            }

            /// Whether the same call can succeed later. If so, the answer has `Retry-After`.
            pub(crate) const fn is_retryable(self) -> bool {
                match self { $(Self::$name => $retryable,)+ }
            }

            /// What it means, in a few words.
            pub(crate) const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            /// Its page, as Markdown.
            pub(crate) const fn page(self) -> &'static str {
                match self {
                    $(Self::$name => {
                        include_str!(concat!("../../../../docs/errors/", $word, ".md"))
                    })+
                }
            }
        }
    };
}

// name, word, status, retryable, title
codes! {
    InvalidJson "invalid_json" BAD_REQUEST false "The body is not JSON";
    UnreadableBody "unreadable_body" BAD_REQUEST false "The body could not be read to its end";
    InvalidPath "invalid_path" BAD_REQUEST false "The path is not UTF-8";
    NotFound "not_found" NOT_FOUND false "There is no such thing";
    MethodNotAllowed "method_not_allowed" METHOD_NOT_ALLOWED false "The route does not take this method";
    HostNotAllowed "host_not_allowed" MISDIRECTED_REQUEST false "The Host header is not a name of this node";
    CrossOrigin "cross_origin" FORBIDDEN false "A web page of another origin made the request";
    UnsupportedMediaType "unsupported_media_type" UNSUPPORTED_MEDIA_TYPE false "The body must be application/json";
    RequestTimeout "request_timeout" REQUEST_TIMEOUT true "The body did not arrive in time";
    BodyTooLarge "body_too_large" PAYLOAD_TOO_LARGE false "The body is too large";
    InvalidBody "invalid_body" UNPROCESSABLE_ENTITY false "The body does not have the right shape";
    MissingField "missing_field" UNPROCESSABLE_ENTITY false "Something that is needed was left out";
    InvalidField "invalid_field" UNPROCESSABLE_ENTITY false "A value can't be kept";
    InvalidAddress "invalid_address" UNPROCESSABLE_ENTITY false "Not an address";
    InvalidNumber "invalid_number" UNPROCESSABLE_ENTITY false "Not a whole number, or out of range";
    InvalidHex "invalid_hex" UNPROCESSABLE_ENTITY false "Not 0x-hex";
    InvalidTime "invalid_time" UNPROCESSABLE_ENTITY false "Not an RFC 3339 time";
    InvalidFees "invalid_fees" UNPROCESSABLE_ENTITY false "The fees contradict each other";
    InvalidRequestId "invalid_request_id" UNPROCESSABLE_ENTITY false "Not a usable request id";
    RequestIdMismatch "request_id_mismatch" UNPROCESSABLE_ENTITY false "Body and header name different requests";
    MetadataTooLarge "metadata_too_large" UNPROCESSABLE_ENTITY false "The metadata is too large";
    InvalidBatch "invalid_batch" UNPROCESSABLE_ENTITY false "A batch of no items, or of too many";
    InvalidRawTx "invalid_raw_tx" UNPROCESSABLE_ENTITY false "Not a signed transaction that can be taken";
    NonceMismatch "nonce_mismatch" UNPROCESSABLE_ENTITY false "The signed transaction has another nonce than the next one";
    Expired "expired" UNPROCESSABLE_ENTITY false "The intent is past its time";
    WrongChain "wrong_chain" UNPROCESSABLE_ENTITY false "The node works on another chain";
    UnknownSubmitter "unknown_submitter" UNPROCESSABLE_ENTITY false "The account is not served here";
    FeeTooLowToReplace "fee_too_low_to_replace" UNPROCESSABLE_ENTITY false "The price is too low to replace the transaction";
    WouldRevert "would_revert" UNPROCESSABLE_ENTITY false "The call would fail on the chain";
    InsufficientFunds "insufficient_funds" UNPROCESSABLE_ENTITY false "The account can't pay for the transaction";
    GasTooLow "gas_too_low" UNPROCESSABLE_ENTITY false "The gas limit is below the intrinsic cost";
    GasAboveBlockLimit "gas_above_block_limit" UNPROCESSABLE_ENTITY false "The transaction needs more gas than a block has";
    GasAboveTxLimit "gas_above_tx_limit" UNPROCESSABLE_ENTITY false "The transaction asks for more gas than the chain allows one";
    TxTooLarge "tx_too_large" UNPROCESSABLE_ENTITY false "The transaction is longer than nodes take";
    FeeCapTooLow "fee_cap_too_low" UNPROCESSABLE_ENTITY false "A fee cap is far below the base fee";
    InvalidTransaction "invalid_transaction" UNPROCESSABLE_ENTITY false "No node would take the transaction";
    InvalidQuery "invalid_query" UNPROCESSABLE_ENTITY false "A parameter that the route does not take";
    InvalidLimit "invalid_limit" UNPROCESSABLE_ENTITY false "A page of no rows, or of too many";
    InvalidCursor "invalid_cursor" UNPROCESSABLE_ENTITY false "Not a place in the list";
    InvalidDuration "invalid_duration" UNPROCESSABLE_ENTITY false "Not a duration, or too long";
    InvalidState "invalid_state" UNPROCESSABLE_ENTITY false "Not a state";
    InvalidTxId "invalid_tx_id" UNPROCESSABLE_ENTITY false "Not a transaction id";
    CursorAhead "cursor_ahead" CONFLICT false "The cursor is beyond the end of the feed";
    RequestIdConflict "request_id_conflict" CONFLICT false "The request id belongs to another payload";
    TxNotAllocated "tx_not_allocated" CONFLICT true "The transaction has no slot yet";
    TxMined "tx_mined" CONFLICT false "The transaction is in a block";
    TxFinal "tx_final" CONFLICT false "The transaction is final";
    TxClosing "tx_closing" CONFLICT false "The transaction's slot is being closed";
    NoKey "no_key" CONFLICT false "There is no key to sign with";
    SignedByCaller "signed_by_caller" CONFLICT false "The caller signed the transaction";
    PayloadFixed "payload_fixed" CONFLICT false "The transaction's payload may not change";
    FeeCap "fee_cap" CONFLICT false "What would replace it is above a cap";
    CannotResume "cannot_resume" CONFLICT false "The account can't go on";
    CannotChangeMode "cannot_change_mode" CONFLICT false "The account's mode can't change now";
    NoncesRefused "nonces_refused" CONFLICT false "This can't be done to these nonces";
    ReservationsDisabled "reservations_disabled" CONFLICT false "The account hands out no nonces";
    SubmitterNotActive "submitter_not_active" CONFLICT false "The account takes no work";
    StaleOwnerToken "stale_owner_token" CONFLICT false "The nonce is not the caller's any more";
    NotOwner "not_owner" CONFLICT true "Another node works for the account";
    Busy "busy" TOO_MANY_REQUESTS true "Too much waits for the account";
    TooManyReservations "too_many_reservations" TOO_MANY_REQUESTS true "Callers hold as many nonces as they may";
    Draining "draining" SERVICE_UNAVAILABLE true "The node is being stopped";
    TooManyConnections "too_many_connections" SERVICE_UNAVAILABLE true "The node has as many connections as it may have";
    Unavailable "unavailable" SERVICE_UNAVAILABLE true "The chain or a worker can't be asked now";
    StoreUnavailable "store_unavailable" SERVICE_UNAVAILABLE true "The database can't be asked now";
    Timeout "timeout" SERVICE_UNAVAILABLE true "Not answered within the time limit";
    Internal "internal" INTERNAL_SERVER_ERROR false "A defect in Tollgate";
}

impl Code {
    /// The code of a word.
    pub(crate) fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.word() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page about what nodes answer, not about a code of ours.
    const OTHER_PAGES: [&str; 1] = ["send-answers"];

    #[test]
    fn every_page_has_a_code_and_says_what_the_table_says() {
        for code in Code::ALL {
            let again = if code.is_retryable() { "retryable" } else { "not retryable" };
            let head = format!(
                "# {}\n\n{}. HTTP {}, {again}.\n",
                code.word(),
                code.title(),
                code.status().as_u16()
            );
            let page = code.page();
            assert!(page.starts_with(&head), "{} must begin with:\n{head}", code.word());
            for part in ["## When", "## What to do", "## Example"] {
                assert!(page.contains(part), "{} has no {part:?}", code.word());
            }
            let example = format!("\"code\": \"{}\"", code.word());
            assert!(page.contains(&example), "{} shows no answer", code.word());
        }
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let word = path.file_stem().unwrap().to_str().unwrap();
            assert!(Code::of(word).is_some() || OTHER_PAGES.contains(&word), "no code {word}");
        }
    }

    #[test]
    fn the_api_page_lists_every_code() {
        let page = include_str!("../../../../docs/api.md");
        for code in Code::ALL {
            let word = code.word();
            let again = if code.is_retryable() { "yes" } else { "no" };
            let (status, title) = (code.status().as_u16(), code.title());
            let row = format!("| [`{word}`](errors/{word}.md) | {status} | {again} | {title} |\n");
            assert!(page.contains(&row), "docs/api.md lacks\n{row}");
        }
    }

    #[test]
    fn a_word_stands_for_one_code() {
        for code in Code::ALL {
            assert_eq!(Code::of(code.word()), Some(*code));
        }
        assert_eq!(Code::of("nonsense"), None);
    }
}
