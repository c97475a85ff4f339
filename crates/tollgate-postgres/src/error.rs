//! What PostgreSQL's errors mean to a caller.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::error::{DbError, Error as PgError, SqlState};
use tollgate_model::ids::InvalidId;
use tollgate_model::port::StoreError;

/// Why a statement has no result.
#[derive(Debug)]
pub(crate) enum SqlError {
    /// The server said so, or the connection ended.
    Postgres(PgError),
    /// Nothing was heard for so long.
    Silence(Duration),
    /// It was asked after its end: a defect.
    Closed,
}

impl SqlError {
    /// What the server said, if it did.
    fn servers_word(&self) -> Option<&DbError> {
        match self {
            Self::Postgres(error) => error.as_db_error(),
            Self::Silence(_) | Self::Closed => None,
        }
    }

    /// The class of the server's code.
    fn class(&self) -> Option<&str> {
        self.servers_word().and_then(|word| word.code().code().get(..2))
    }
}

impl From<PgError> for SqlError {
    fn from(error: PgError) -> Self {
        Self::Postgres(error)
    }
}

/// An error of a statement that was not a commit: nothing was written.
pub(crate) fn failed(error: impl Into<SqlError>) -> StoreError {
    let error = error.into();
    let why = error.to_string();
    match (&error, error.class()) {
        (SqlError::Closed, _) => StoreError::Defect(why),
        (_, None) => StoreError::Unavailable(why),
        // Connection, resources, operator, lock and serialisation trouble: the world, and it passes.
        (_, Some("08" | "40" | "53" | "55" | "57" | "58")) => StoreError::Unavailable(why),
        // An idle transaction that the server ended (25P03), or what followed on it (25P02).
        (_, Some("25")) => StoreError::Unavailable(why),
        (_, Some("22")) => StoreError::Invalid(InvalidId { field: "value", problem: why }),
        (_, Some(_)) => StoreError::Defect(why),
    }
}

/// The error of a commit itself: unless the server says that it refused, nobody knows.
pub(crate) fn commit_failed(error: SqlError) -> StoreError {
    let refused = matches!(error.class(), Some("23" | "40" | "25"));
    if refused { failed(error) } else { StoreError::CommitUnknown(error.to_string()) }
}

/// The constraint by which the database itself refused a row, if that is what happened.
pub(crate) fn broken_constraint(error: &SqlError) -> Option<String> {
    let db = error.servers_word()?;
    let constraint = db.constraint().unwrap_or("unnamed");
    db.code().code().starts_with("23").then(|| format!("{constraint}: {}", db.message()))
}

/// Why the database refused what one section holds: a constraint, or a value that no column takes. Its
/// neighbours may still be written (I14).
pub(crate) fn refused_values(error: &SqlError) -> Option<String> {
    let is_value = error.class() == Some("22");
    broken_constraint(error).or_else(|| is_value.then(|| error.to_string()))
}

/// The error is a lock that was not to be had in time.
pub(crate) fn is_lock_timeout(error: &SqlError) -> bool {
    error.servers_word().is_some_and(|word| *word.code() == SqlState::LOCK_NOT_AVAILABLE)
}

/// No connection: nothing was written.
pub(crate) fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::PostCreateHook(HookError::Message(unsafe_setting)) => {
            StoreError::Unsafe(unsafe_setting.into_owned())
        }
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            StoreError::Unavailable(SqlError::from(error).to_string())
        }
        PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified => {
            StoreError::Unavailable(error.to_string())
        }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence(long) => write!(f, "no answer within {long:?}"),
            Self::Closed => write!(f, "the connection is over"),
            // tokio-postgres keeps what the server said in the source, not in the text.
            Self::Postgres(error) => match (error.as_db_error(), error.source()) {
                (Some(word), _) => write!(f, "{} ({})", word.message(), word.code().code()),
                (None, Some(source)) => write!(f, "{error}: {source}"),
                (None, None) => write!(f, "{error}"),
            },
        }
    }
}
