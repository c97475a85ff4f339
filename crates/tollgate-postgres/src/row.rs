//! Rows as PostgreSQL returns them; `tollgate_model::sql::row` decodes them.

use std::error::Error;
use std::time::SystemTime;

use tokio_postgres::types::{FromSql, Type, accepts};
use tollgate_model::Timestamp;
use tollgate_model::port::{Cause, StoreError};
pub(crate) use tollgate_model::sql::row::*;
use uuid::Uuid;

/// A row.
pub(crate) struct Row(pub(crate) tokio_postgres::Row);

impl Row {
    fn get<'r, T: FromSql<'r>>(&'r self, column: &str) -> Result<Option<T>, StoreError> {
        let unreadable = |error| Cause::new(format!("column {column}: {error}"), error);
        self.0.try_get(column).map_err(|error| StoreError::Defect(unreadable(error)))
    }
}

impl SqlRow for Row {
    fn integer(&self, column: &str) -> Result<Option<i64>, StoreError> {
        Ok(self.get::<Integer>(column)?.map(|Integer(value)| value))
    }

    fn boolean(&self, column: &str) -> Result<Option<bool>, StoreError> {
        self.get(column)
    }

    fn bytes(&self, column: &str) -> Result<Option<&[u8]>, StoreError> {
        self.get(column)
    }

    fn text(&self, column: &str) -> Result<Option<&str>, StoreError> {
        self.get(column)
    }

    fn time(&self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.get::<SystemTime>(column)?.map(Timestamp::from))
    }

    fn uuid(&self, column: &str) -> Result<Option<Uuid>, StoreError> {
        self.get(column)
    }
}

/// An integer of 2, 4 or 8 bytes.
struct Integer(i64);

impl FromSql<'_> for Integer {
    fn from_sql(ty: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT2 => i16::from_sql(ty, raw)?.into(),
            Type::INT4 => i32::from_sql(ty, raw)?.into(),
            _ => i64::from_sql(ty, raw)?,
        }))
    }

    accepts!(INT2, INT4, INT8);
}

/// The decoded row for each place in the input; `None` where there is none.
pub(crate) fn by_place<T>(
    rows: &[Row],
    places: usize,
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<Vec<Option<T>>, StoreError> {
    let mut read_rows = Vec::new();
    read_rows.resize_with(places, || None);
    for row in rows {
        let place = place(row)?;
        if read_rows.len() <= place {
            read_rows.resize_with(place + 1, || None);
        }
        read_rows[place] = Some(read(row)?);
    }
    Ok(read_rows)
}

/// The place in the input that a row belongs to, counted from 0.
pub(crate) fn place(row: &Row) -> Result<usize, StoreError> {
    let place: i64 = int(row, "place")?;
    usize::try_from(place - 1).map_err(|_| defect(format!("place {place}")))
}
