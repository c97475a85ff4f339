//! The statements, each from its own file under `queries/`, where its first line says what it
//! promises.
//!
//! The file names are those of `tollgate-postgres`. What ends in `_lock` is a plain read here: the
//! transaction around it holds the write lock. `completion_number` is the one statement more.

/// Names each file's statement, and lists all of them.
macro_rules! queries {
    ($($constant:ident = $name:literal;)*) => {
        $(
            #[doc = concat!("`", $name, ".sql`")]
            pub const $constant: &str = include_str!(concat!("../queries/", $name, ".sql"));
        )*

        /// Every statement, by the name of its file.
        pub const ALL: &[(&str, &str)] = &[$(($name, $constant)),*];
    };
}

queries! {
    LEASE_FIND = "lease_find";
    LEASE_INSERT = "lease_insert";
    LEASE_LOCK_EXPIRED = "lease_lock_expired";
    LEASE_TAKE_OVER = "lease_take_over";
    LEASE_RENEW = "lease_renew";
    LEASE_RELEASE = "lease_release";
    LEASE_OWNERS = "lease_owners";
    LEASE_ORPHANS = "lease_orphans";
    LEASE_GUARD = "lease_guard";
    CHAIN_INSERT = "chain_insert";
    CHAIN_GENESIS = "chain_genesis";
    SUBMITTER_REGISTER = "submitter_register";
    SUBMITTER_GET = "submitter_get";
    SUBMITTER_PAGE = "submitter_page";
    SUBMITTER_HISTORY_INSERT = "submitter_history_insert";
    SUBMITTER_HISTORY_PAGE = "submitter_history_page";
    SUBMITTER_DEPTH = "submitter_depth";
    CURSOR_LOCK = "cursor_lock";
    CURSOR_MOVE = "cursor_move";
    STATUS_CHANGE = "status_change";
    MODE_CHANGE = "mode_change";
    SUBMITTER_MODES = "submitter_modes";
    REQUEST_FIND = "request_find";
    TX_LOCK = "tx_lock";
    TX_INSERT = "tx_insert";
    TX_UPDATE = "tx_update";
    TX_GET = "tx_get";
    TX_BY_REQUEST = "tx_by_request";
    TX_BY_HASH = "tx_by_hash";
    TX_PAGE = "tx_page";
    TX_PAGE_OPEN = "tx_page_open";
    TX_PAGE_FAILED = "tx_page_failed";
    TX_OPEN_WORK = "tx_open_work";
    TX_LINE_HEAD = "tx_line_head";
    TX_SLOTS = "tx_slots";
    ATTEMPT_INSERT = "attempt_insert";
    ATTEMPT_OF = "attempt_of";
    HISTORY_INSERT = "history_insert";
    HISTORY_PAGE = "history_page";
    CONFIRMATION_PUT = "confirmation_put";
    CONFIRMATION_GET = "confirmation_get";
    DIAGNOSIS_PUT = "diagnosis_put";
    PATIENCE_PUT = "patience_put";
    PATIENCE_DELETE = "patience_delete";
    UNPROVEN_PUT = "unproven_put";
    UNPROVEN_DELETE = "unproven_delete";
    WAIT_GET = "wait_get";
    WAIT_DELETE = "wait_delete";
    WAIT_PUT = "wait_put";
    RECEIPT_PUT = "receipt_put";
    COMPLETION_NUMBER = "completion_number";
    COMPLETION_INSERT = "completion_insert";
    COMPLETION_END = "completion_end";
    COMPLETION_PAGE = "completion_page";
    OUTBOX_INSERT = "outbox_insert";
    OUTBOX_PAGE = "outbox_page";
    OUTBOX_FORGET = "outbox_forget";
    RECYCLABLE_LOCK = "recyclable_lock";
    RECYCLABLE_TAKE = "recyclable_take";
    SLOT_FREE = "slot_free";
    RESERVATION_ADOPT = "reservation_adopt";
    RESERVATION_HAND_BACK = "reservation_hand_back";
    RESERVATION_COUNT = "reservation_count";
    RESERVATION_LOWEST = "reservation_lowest";
    RESERVATION_PUT = "reservation_put";
    RESERVATION_USED = "reservation_used";
    RESERVATION_RECYCLABLE = "reservation_recyclable";
    RESERVATION_EXPIRE = "reservation_expire";
    RESERVATION_RETIRE = "reservation_retire";
    RESERVATION_PAGE = "reservation_page";
    RESERVATION_USED_FROM = "reservation_used_from";
    NODE_HEARTBEAT = "node_heartbeat";
    NODE_LIVE = "node_live";
    NODE_LEAVE = "node_leave";
    SERVED_FIND = "served_find";
    SERVED_PUT = "served_put";
    SERVED_GET = "served_get";
    SERVED_FORGET = "served_forget";
}
