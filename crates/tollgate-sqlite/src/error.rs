//! SQLite's errors, translated to what a caller of the store should do.

use rusqlite::ErrorCode;
use tollgate_model::ids::InvalidValue;
use tollgate_model::port::{Cause, StoreError};

/// An error of a query or of the decoding of a row, inside of a transaction. A constraint that refuses one
/// section of a batch is no reason to fail the others, so SQLite's errors are kept apart here.
#[derive(Debug)]
pub(crate) enum QueryError {
    /// SQLite, or a value that is not of the column's type.
    Sql(rusqlite::Error),
    /// Already translated.
    Store(StoreError),
}

impl QueryError {
    /// The reason why a section can't be written although the database works: a constraint, by its name or
    /// its columns, or a row that makes no sense. Its neighbours can still be written.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Sql(error) => match code(error) {
                Some(
                    ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch,
                )
                | None => Some(error.to_string()),
                Some(_) => None,
            },
            Self::Store(StoreError::Defect(problem)) => Some(problem.to_string()),
            Self::Store(StoreError::Invalid(invalid)) => Some(invalid.to_string()),
            Self::Store(_) => None,
        }
    }

    /// A value from a caller that no column can hold.
    pub(crate) fn invalid(field: &'static str, problem: String) -> Self {
        Self::Store(StoreError::Invalid(InvalidValue { field, problem }))
    }

    /// Something that this program can't have written, or should not have done.
    pub(crate) fn defect(problem: impl Into<Cause>) -> Self {
        Self::Store(StoreError::Defect(problem.into()))
    }
}

impl From<rusqlite::Error> for QueryError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for QueryError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<QueryError> for StoreError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Sql(error) => before_commit(error),
            QueryError::Store(error) => error,
        }
    }
}

/// An error before COMMIT was sent: nothing was written.
pub(crate) fn before_commit(error: rusqlite::Error) -> StoreError {
    if is_unavailable(&error) {
        StoreError::Unavailable(Cause::of(error))
    } else if is_damaged(&error) {
        StoreError::Unsafe(Cause::of(error))
    } else {
        StoreError::Defect(Cause::of(error))
    }
}

/// The same call may succeed later.
pub(crate) fn is_unavailable(error: &rusqlite::Error) -> bool {
    matches!(
        code(error),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::ReadOnly
                | ErrorCode::OutOfMemory
                | ErrorCode::PermissionDenied
                | ErrorCode::OperationInterrupted
                | ErrorCode::FileLockingProtocolFailed,
        )
    )
}

/// The file is damaged, or no database.
pub(crate) fn is_damaged(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

/// An error of COMMIT. Only "busy" means that nothing was written; after any other the log may hold a
/// commit that a recovery finds.
pub(crate) fn at_commit(error: rusqlite::Error) -> StoreError {
    if is_busy(&error) {
        StoreError::Unavailable(Cause::of(error))
    } else {
        StoreError::CommitUnknown(Cause::of(error))
    }
}

/// Another connection holds the lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn sqlite(code: std::ffi::c_int) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn busy_means_nothing_was_written_and_a_disk_error_at_commit_is_unknown() {
        let (busy, broken) = (ffi::SQLITE_BUSY_SNAPSHOT, ffi::SQLITE_IOERR_FSYNC);
        assert!(matches!(before_commit(sqlite(busy)), StoreError::Unavailable(_)));
        assert!(matches!(at_commit(sqlite(busy)), StoreError::Unavailable(_)));
        assert!(matches!(before_commit(sqlite(broken)), StoreError::Unavailable(_)));
        assert!(matches!(at_commit(sqlite(broken)), StoreError::CommitUnknown(_)));
    }

    #[test]
    fn a_damaged_file_is_unsafe() {
        assert!(matches!(before_commit(sqlite(ffi::SQLITE_CORRUPT)), StoreError::Unsafe(_)));
        assert!(matches!(before_commit(sqlite(ffi::SQLITE_NOTADB)), StoreError::Unsafe(_)));
    }
}
