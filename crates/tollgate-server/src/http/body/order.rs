//! Bodies of actions: why, and for a replacement with what.

use tollgate_engine::Fill;
use tollgate_model::fill::{FillWith, NonceRange};
use tollgate_model::nonce::Mode;
use tollgate_model::port::policy::Replacement;
use tollgate_model::{Nonce, Text};
use utoipa::ToSchema;

use super::{Fields, FromFields, Number, check_fees, read_call};
use crate::http::code::Code;
use crate::http::problem::Problem;
use crate::http::schema;

/// What the audit trail says where nobody gave a reason.
const NO_REASON: &str = "no reason given";

/// Why something is done.
#[derive(Default, ToSchema)]
#[schema(as = Reason)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    /// For the audit trail: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    reason: Option<String>,
}

impl Reason {
    pub(crate) fn read(self) -> Result<Text<500>, Problem> {
        Ok(Text::new("reason", self.reason.unwrap_or_else(|| NO_REASON.to_owned()))?)
    }
}

/// Why something is done, where it must be said.
#[derive(Default, ToSchema)]
#[schema(as = NeededReason)]
#[serde(deny_unknown_fields)]
pub(crate) struct NeededReason {
    /// Shown with the submitter: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    reason: Option<String>,
}

impl NeededReason {
    pub(crate) fn read(self) -> Result<Text<500>, Problem> {
        let given = self.reason.filter(|reason| !reason.trim().is_empty());
        Ok(Text::new("reason", given.ok_or_else(|| Problem::missing("reason"))?)?)
    }
}

/// Which mode a submitter is to have, and why.
#[derive(Default, ToSchema)]
#[schema(as = NewMode)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModeBody {
    /// `pipelined` or `strict`.
    #[schema(value_type = schema::Mode, required)]
    mode: Option<Mode>,
    /// For the submitter's audit trail: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    reason: Option<String>,
}

impl ModeBody {
    pub(crate) fn read(self) -> Result<(Mode, Text<500>), Problem> {
        let mode = self.mode.ok_or_else(|| Problem::missing("mode"))?;
        Ok((mode, NeededReason { reason: self.reason }.read()?))
    }
}

/// Which nonces are to be filled, with what, and why.
#[derive(Default, ToSchema)]
#[schema(as = FillNonces)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct FillBody {
    /// The lowest nonce.
    #[schema(value_type = schema::Number, required)]
    first: Option<Number>,
    /// The highest nonce: below the submitter's next one, and at most 999 above `first`.
    #[schema(value_type = schema::Number, required)]
    last: Option<Number>,
    /// `next`: the transactions that come next. `placeholder`: transfers to self, which cost gas.
    #[schema(value_type = schema::FillWith, required)]
    with: Option<FillWith>,
    /// Also nonces that callers reserved and said to use: with `true` the operator vouches that what
    /// they signed will not be sent.
    used: Option<bool>,
    /// For the submitter's audit trail: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    reason: Option<String>,
}

impl FillBody {
    pub(crate) fn read(self) -> Result<(Fill, Text<500>), Problem> {
        let (first, last) = (read_nonce("first", self.first)?, read_nonce("last", self.last)?);
        let with = self.with.ok_or_else(|| Problem::missing("with"))?;
        let (range, used) = (NonceRange { first, last }, self.used.unwrap_or_default());
        Ok((Fill { range, with, used }, NeededReason { reason: self.reason }.read()?))
    }
}

/// Where a cursor goes, and why.
#[derive(Default, ToSchema)]
#[schema(as = NewCursor)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AdvanceBody {
    /// The submitter's next nonce: above the present one, and at most what an endpoint counts.
    #[schema(value_type = schema::Number, required)]
    next_nonce: Option<Number>,
    /// For the submitter's audit trail: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    reason: Option<String>,
}

impl AdvanceBody {
    pub(crate) fn read(self) -> Result<(Nonce, Text<500>), Problem> {
        let to = read_nonce("nextNonce", self.next_nonce)?;
        Ok((to, NeededReason { reason: self.reason }.read()?))
    }
}

fn read_nonce(name: &'static str, given: Option<Number>) -> Result<Nonce, Problem> {
    let number = given.ok_or_else(|| Problem::missing(name))?;
    Ok(Nonce::new(number.read_u64(0..=Nonce::MAX.get())?)?)
}

/// What is to stand in a transaction's place: at least one of these, besides the reason.
#[derive(Default, ToSchema)]
#[schema(as = Replacement)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ReplaceBody {
    /// The price for a unit of gas, in wei: signed as it is. Below what a replacement needs it is
    /// refused with that minimum, above a cap with the cap. Without it, what a replacement needs and
    /// the market asks, within the caps.
    #[schema(value_type = Option<schema::Number>)]
    max_fee_per_gas: Option<Number>,
    /// The tip, in the same way; at most `maxFeePerGas`.
    #[schema(value_type = Option<schema::Number>)]
    max_priority_fee_per_gas: Option<Number>,
    /// Another call, where the create said `replaceable`.
    #[schema(value_type = Option<NewPayload>)]
    payload: Option<NewPayload>,
    /// For the audit trail: up to 500 bytes.
    #[schema(value_type = Option<schema::ReasonText>)]
    reason: Option<String>,
}

/// A call in the place of another one.
#[derive(ToSchema)]
#[schema(as = NewPayload)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPayload {
    /// What is called; left out to create a contract from `data`.
    #[schema(value_type = Option<schema::Address>)]
    to: Option<String>,
    /// What is paid, in wei; 0 if left out.
    #[schema(value_type = Option<schema::Number>)]
    value: Option<Number>,
    /// The call's data as 0x-hex.
    #[schema(value_type = Option<schema::Hex>)]
    data: Option<String>,
    /// The most gas it may use; estimated if left out.
    #[schema(value_type = Option<schema::Number>)]
    gas: Option<Number>,
}

impl ReplaceBody {
    pub(crate) fn read(self) -> Result<(Replacement, Text<500>), Problem> {
        let price = |fee: Option<Number>| fee.map(|fee| fee.read_price()).transpose();
        let max_fee_per_gas = price(self.max_fee_per_gas)?;
        let max_priority_fee_per_gas = price(self.max_priority_fee_per_gas)?;
        check_fees(max_fee_per_gas, max_priority_fee_per_gas, "maxPriorityFeePerGas")?;
        let call = self.payload.map(|new| read_call(new.to, new.value, new.data, new.gas));
        let replacement =
            Replacement { max_fee_per_gas, max_priority_fee_per_gas, call: call.transpose()? };
        if replacement == Replacement::default() {
            let detail = "one of maxFeePerGas, maxPriorityFeePerGas and payload is needed";
            return Err(Problem::new(Code::MissingField, detail));
        }
        Ok((replacement, Reason { reason: self.reason }.read()?))
    }
}

impl FromFields for Reason {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Self { reason: fields.text("reason")? })
    }
}

impl FromFields for NeededReason {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Self { reason: fields.text("reason")? })
    }
}

impl FromFields for ModeBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let modes = Mode::ALL.map(|mode| (mode.name(), mode));
        Ok(Self { mode: fields.word("mode", &modes)?, reason: fields.text("reason")? })
    }
}

impl FromFields for FillBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let ways = FillWith::ALL.map(|with| (with.name(), with));
        Ok(Self {
            first: fields.number("first")?,
            last: fields.number("last")?,
            with: fields.word("with", &ways)?,
            used: fields.flag("used")?,
            reason: fields.text("reason")?,
        })
    }
}

impl FromFields for AdvanceBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Self { next_nonce: fields.number("nextNonce")?, reason: fields.text("reason")? })
    }
}

impl FromFields for ReplaceBody {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Self {
            max_fee_per_gas: fields.number("maxFeePerGas")?,
            max_priority_fee_per_gas: fields.number("maxPriorityFeePerGas")?,
            payload: fields.object("payload")?,
            reason: fields.text("reason")?,
        })
    }
}

impl FromFields for NewPayload {
    fn from_fields(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        Ok(Self {
            to: fields.text("to")?,
            value: fields.number("value")?,
            data: fields.text("data")?,
            gas: fields.number("gas")?,
        })
    }
}
