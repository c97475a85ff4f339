//! What PostgreSQL's errors mean to a caller.

use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::error::{Error as PgError, SqlState};
use tollgate_model::ids::InvalidId;
use tollgate_model::port::StoreError;

/// An error of a statement that was not a commit: nothing was written.
pub(crate) fn failed(error: PgError) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return StoreError::Unavailable(describe(&error));
    };
    let class = db.code().code().get(..2).unwrap_or_default();
    match class {
        // Connection, resources, operator, lock and serialisation trouble: the world, and it passes.
        "08" | "40" | "53" | "55" | "57" | "58" => StoreError::Unavailable(describe(&error)),
        // An idle transaction that the server ended (25P03), or what followed on it (25P02).
        "25" => StoreError::Unavailable(describe(&error)),
        "22" => StoreError::Invalid(InvalidId { field: "value", problem: describe(&error) }),
        _ => StoreError::Defect(describe(&error)),
    }
}

/// The error of a commit itself: unless the server says that it refused, nobody knows.
pub(crate) fn commit_failed(error: PgError) -> StoreError {
    let refused = error.as_db_error().is_some_and(|db| {
        let code = db.code();
        let class = code.code().get(..2).unwrap_or_default();
        class == "23" || class == "40" || class == "25"
    });
    if refused { failed(error) } else { StoreError::CommitUnknown(describe(&error)) }
}

/// The constraint by which the database itself refused a row, if that is what happened.
pub(crate) fn broken_constraint(error: &PgError) -> Option<String> {
    let db = error.as_db_error()?;
    let constraint = db.constraint().unwrap_or("unnamed");
    db.code().code().starts_with("23").then(|| format!("{constraint}: {}", db.message()))
}

/// The error is a lock that was not to be had in time.
pub(crate) fn is_lock_timeout(error: &PgError) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// No connection: nothing was written.
pub(crate) fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::PostCreateHook(HookError::Message(unsafe_setting)) => {
            StoreError::Unsafe(unsafe_setting.into_owned())
        }
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            StoreError::Unavailable(describe(&error))
        }
        PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified => {
            StoreError::Unavailable(error.to_string())
        }
    }
}

/// tokio-postgres keeps what the server said in the source, not in the text.
fn describe(error: &PgError) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
