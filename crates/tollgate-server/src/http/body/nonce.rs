//! Bodies about nonces that callers hold.

use std::time::Duration;

use tollgate_model::{Text, TxHash};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Fields, FromFields, Number, hash, quoted};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::schema;

/// How long a nonce is wanted for.
#[derive(Default, ToSchema)]
#[schema(as = Reserve)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReserveBody {
    /// After so many seconds it comes back by itself; `reservations.hold` if left out.
    #[schema(value_type = Option<schema::Number>)]
    hold_seconds: Option<Number>,
}

impl ReserveBody {
    pub(crate) fn read(self) -> Result<Option<Duration>, Problem> {
        let seconds = self.hold_seconds.map(|seconds| seconds.read_u64(0..=u64::MAX));
        Ok(seconds.transpose()?.map(Duration::from_secs))
    }
}

/// What a caller uses its nonce for.
#[derive(ToSchema)]
#[schema(as = UsedNonce)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UsedBody {
    /// The caller's proof, from the reservation.
    #[schema(value_type = schema::OwnerToken)]
    owner_token: String,
    /// The hash of what the caller has signed and is about to send.
    #[schema(value_type = schema::Hash)]
    tx_hash: String,
}

impl UsedBody {
    pub(crate) fn read(self) -> Result<(Uuid, TxHash), Problem> {
        Ok((token(&self.owner_token)?, hash("txHash", &self.tx_hash)?))
    }
}

/// Why a caller gives its nonce back.
#[derive(ToSchema)]
#[schema(as = ReturnedNonce)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReturnedBody {
    /// The caller's proof, from the reservation.
    #[schema(value_type = schema::OwnerToken)]
    owner_token: String,
    /// Why: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText)]
    reason: String,
}

impl ReturnedBody {
    pub(crate) fn read(self) -> Result<(Uuid, Text<500>), Problem> {
        if self.reason.trim().is_empty() {
            return Err(Problem::missing("reason"));
        }
        Ok((token(&self.owner_token)?, Text::new("reason", self.reason)?))
    }
}

fn token(text: &str) -> Result<Uuid, Problem> {
    let bad = |_| {
        let what = format!("{} must be the UUID from the reservation", quoted(text));
        Problem::of_field(Code::InvalidField, "ownerToken", what)
    };
    Uuid::try_parse(text).map_err(bad)
}

impl FromFields for ReserveBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Self { hold_seconds: fields.number("holdSeconds")? })
    }
}

impl FromFields for UsedBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let (owner_token, tx_hash) = (fields.text("ownerToken")?, fields.text("txHash")?);
        Ok(Self {
            owner_token: fields.needed("ownerToken", owner_token)?,
            tx_hash: fields.needed("txHash", tx_hash)?,
        })
    }
}

impl FromFields for ReturnedBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let (owner_token, reason) = (fields.text("ownerToken")?, fields.text("reason")?);
        Ok(Self {
            owner_token: fields.needed("ownerToken", owner_token)?,
            reason: fields.needed("reason", reason)?,
        })
    }
}
