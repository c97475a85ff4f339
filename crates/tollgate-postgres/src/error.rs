//! PostgreSQL's errors, translated to what a caller of the store should do.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::error::{DbError, Error as PgError, SqlState};
use tollgate_model::ids::InvalidValue;
use tollgate_model::port::{Cause, StoreError};

/// An error of a statement.
#[derive(Debug)]
pub(crate) enum SqlError {
    /// The server reported an error, or the connection ended.
    Postgres(PgError),
    /// The server did not answer within this time.
    NoAnswer(Duration),
}

impl SqlError {
    /// The server's report, if it sent one.
    pub(crate) fn server_report(&self) -> Option<&DbError> {
        match self {
            Self::Postgres(error) => error.as_db_error(),
            Self::NoAnswer(_) => None,
        }
    }

    /// The class of the server's code.
    fn class(&self) -> Option<&str> {
        self.server_report().and_then(|report| report.code().code().get(..2))
    }

    /// The constraint that refused a row, if one did.
    pub(crate) fn broken_constraint(&self) -> Option<String> {
        let report = self.server_report()?;
        let constraint = report.constraint().unwrap_or("unnamed");
        let is_broken = report.code().code().starts_with("23");
        is_broken.then(|| format!("{constraint}: {}", report.message()))
    }

    /// The reason why the database refused the rows of one section: a constraint, or a value that no column takes.
    /// Other sections of the batch may still be written (I14).
    pub(crate) fn refused_values(&self) -> Option<String> {
        let is_value = self.class() == Some("22");
        self.broken_constraint().or_else(|| is_value.then(|| self.to_string()))
    }

    pub(crate) fn is_lock_timeout(&self) -> bool {
        self.server_report().is_some_and(|report| *report.code() == SqlState::LOCK_NOT_AVAILABLE)
    }
}

impl From<PgError> for SqlError {
    fn from(error: PgError) -> Self {
        Self::Postgres(error)
    }
}

/// An error of a statement other than a commit: nothing was written.
impl From<SqlError> for StoreError {
    fn from(error: SqlError) -> Self {
        match error.class() {
            // Connection, resources, operator, locks and serialisation: it can succeed later. Class 25
            // is a transaction that the server ended for idling, or a statement after that.
            None | Some("08" | "25" | "40" | "53" | "55" | "57" | "58") => {
                Self::Unavailable(Cause::of(error))
            }
            Some("22") => {
                Self::Invalid(InvalidValue { field: "value", problem: error.to_string() })
            }
            Some(_) => Self::Defect(Cause::of(error)),
        }
    }
}

/// The error of a commit itself: unless the server reports that it refused, the outcome is unknown.
pub(crate) fn commit_failed(error: SqlError) -> StoreError {
    match error.class() {
        Some("23" | "40" | "25") => error.into(),
        _ => StoreError::CommitUnknown(Cause::of(error)),
    }
}

/// No connection: nothing was written.
pub(crate) fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::PostCreateHook(HookError::Message(unsafe_setting)) => {
            StoreError::Unsafe(unsafe_setting.into())
        }
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            StoreError::Unavailable(Cause::of(SqlError::from(error)))
        }
        PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified => {
            StoreError::Unavailable(Cause::of(error))
        }
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(limit) => write!(f, "no answer within {limit:?}"),
            // tokio-postgres keeps the server's report in the source, not in the text.
            Self::Postgres(error) => match (error.as_db_error(), error.source()) {
                (Some(report), _) => write!(f, "{} ({})", report.message(), report.code().code()),
                (None, Some(source)) => write!(f, "{error}: {source}"),
                (None, None) => write!(f, "{error}"),
            },
        }
    }
}

impl Error for SqlError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Postgres(error) => Some(error),
            Self::NoAnswer(_) => None,
        }
    }
}
