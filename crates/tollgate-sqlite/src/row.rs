//! Rows as SQLite returns them; `tollgate_model::sql::row` decodes them.

use rusqlite::types::ValueRef;
use tollgate_model::Timestamp;
use tollgate_model::port::StoreError;
pub(crate) use tollgate_model::sql::row::*;
use uuid::Uuid;

use crate::error::before_commit;

/// A row.
pub(crate) struct Row<'a>(pub(crate) &'a rusqlite::Row<'a>);

impl Row<'_> {
    fn value(&self, column: &str) -> Result<ValueRef<'_>, StoreError> {
        self.0.get_ref(column).map_err(before_commit)
    }
}

fn other_type<T>(column: &str, value: ValueRef<'_>) -> Result<T, StoreError> {
    Err(defect(format!("column {column} is {}", value.data_type())))
}

impl SqlRow for Row<'_> {
    fn integer(&self, column: &str) -> Result<Option<i64>, StoreError> {
        match self.value(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(value) => Ok(Some(value)),
            value => other_type(column, value),
        }
    }

    fn boolean(&self, column: &str) -> Result<Option<bool>, StoreError> {
        Ok(self.integer(column)?.map(|value| value != 0))
    }

    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, StoreError> {
        match self.value(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Blob(bytes) => Ok(Some(bytes)),
            value => other_type(column, value),
        }
    }

    fn text(&self, column: &str) -> Result<Option<&str>, StoreError> {
        match self.value(column)? {
            ValueRef::Null => Ok(None),
            value @ ValueRef::Text(text) => {
                std::str::from_utf8(text).map(Some).or_else(|_| other_type(column, value))
            }
            value => other_type(column, value),
        }
    }

    fn time(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.integer(column)?.map(Timestamp::from_unix_micros))
    }

    fn uuid(&self, column: &str) -> Result<Option<Uuid>, StoreError> {
        let uuid = |bytes| Uuid::from_slice(bytes).map_err(|error| defect(error.to_string()));
        self.bytes(column)?.map(uuid).transpose()
    }
}
