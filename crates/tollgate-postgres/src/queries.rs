//! The statements, each in a file of its own with its contract on the first line.

/// Declares a constant for each file, and the list of them all.
macro_rules! queries {
    ($($name:ident = $file:literal),+ $(,)?) => {
        $(pub(crate) const $name: &str = include_str!(concat!("../queries/", $file, ".sql"));)+
        /// Every statement by its file name, for the tests that prepare and explain them.
        pub const ALL: &[(&str, &str)] = &[$(($file, $name)),+];
    };
}

queries! {
    ATTEMPT_INSERT = "attempt_insert",
    ATTEMPT_OF = "attempt_of",
    CHAIN_GENESIS = "chain_genesis",
    CHAIN_INSERT = "chain_insert",
    COMPLETION_INSERT = "completion_insert",
    COMPLETION_PAGE = "completion_page",
    CONFIRMATION_GET = "confirmation_get",
    CONFIRMATION_PUT = "confirmation_put",
    CURSOR_LOCK = "cursor_lock",
    CURSOR_MOVE = "cursor_move",
    DIAGNOSIS_PUT = "diagnosis_put",
    HISTORY_INSERT = "history_insert",
    HISTORY_PAGE = "history_page",
    LEASE_FIND = "lease_find",
    LEASE_GUARD = "lease_guard",
    LEASE_INSERT = "lease_insert",
    LEASE_LOCK_EXPIRED = "lease_lock_expired",
    LEASE_ORPHANS = "lease_orphans",
    LEASE_OWNERS = "lease_owners",
    LEASE_RELEASE = "lease_release",
    LEASE_RENEW = "lease_renew",
    LEASE_TAKE_OVER = "lease_take_over",
    NODE_HEARTBEAT = "node_heartbeat",
    NODE_LEAVE = "node_leave",
    NODE_LIVE = "node_live",
    OUTBOX_FORGET = "outbox_forget",
    OUTBOX_INSERT = "outbox_insert",
    OUTBOX_PAGE = "outbox_page",
    RECYCLABLE_LOCK = "recyclable_lock",
    RECYCLABLE_TAKE = "recyclable_take",
    REQUEST_FIND = "request_find",
    RESERVATION_COUNT = "reservation_count",
    RESERVATION_EXPIRE = "reservation_expire",
    RESERVATION_LOWEST = "reservation_lowest",
    RESERVATION_PAGE = "reservation_page",
    RESERVATION_PUT = "reservation_put",
    RESERVATION_RECYCLABLE = "reservation_recyclable",
    RESERVATION_USED = "reservation_used",
    SLOT_FREE = "slot_free",
    STATUS_CHANGE = "status_change",
    SUBMITTER_DEPTH = "submitter_depth",
    SUBMITTER_GET = "submitter_get",
    SUBMITTER_PAGE = "submitter_page",
    SUBMITTER_REGISTER = "submitter_register",
    TX_BY_HASH = "tx_by_hash",
    TX_BY_REQUEST = "tx_by_request",
    TX_GET = "tx_get",
    TX_INSERT = "tx_insert",
    TX_LOCK = "tx_lock",
    TX_OPEN_WORK = "tx_open_work",
    TX_PAGE = "tx_page",
    TX_PAGE_FAILED = "tx_page_failed",
    TX_PAGE_OPEN = "tx_page_open",
    TX_UPDATE = "tx_update",
}
