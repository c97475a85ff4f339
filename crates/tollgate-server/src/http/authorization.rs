//! Reads the authorizations of a create (EIP-7702).

use tollgate_api::{AuthorizationItem, ErrorCode, Number, read_address};
use tollgate_model::authorization::{AUTHORIZATIONS_MAX, Authorization, AuthorizationSignature};
use tollgate_model::port::signer::TxKind;
use tollgate_model::{Address, Intent};
use tollgate_signer::authorized_by;

use super::problem::Problem;

const LIST: &str = "payload.authorizationList";

pub(super) fn read_authorizations(
    items: &[AuthorizationItem],
) -> Result<Vec<Authorization>, Problem> {
    if items.len() > AUTHORIZATIONS_MAX {
        let what = format!("{} items are more than {AUTHORIZATIONS_MAX}", items.len());
        return Err(Problem::of_field(ErrorCode::InvalidField, LIST, what));
    }
    items.iter().enumerate().map(|(place, item)| read(&format!("{LIST}[{place}]"), item)).collect()
}

fn read(path: &str, item: &AuthorizationItem) -> Result<Authorization, Problem> {
    let at = |name: &str| format!("{path}.{name}");
    let refused = |what: &str| Problem::of_field(ErrorCode::InvalidField, path, what);
    let named = item.authority.as_deref();
    let named = named.map(|text| read_address(&at("authority"), text)).transpose()?;
    let unsigned = Authorization {
        chain_id: item.chain_id.read_u64(&at("chainId"), 0..=u64::MAX)?,
        address: read_address(&at("address"), &item.address)?,
        nonce: item.nonce.read_u64(&at("nonce"), 0..=u64::MAX - 1)?,
        authority: named.unwrap_or(Address::ZERO),
        signature: None,
    };
    let number = |name: &str, it: &Option<Number>| {
        it.as_ref().map(|number| number.read(&at(name))).transpose()
    };
    let parity = item.y_parity.as_ref().map(|it| it.read_u64(&at("yParity"), 0..=1)).transpose()?;
    let (y_parity, r, s) = match (parity, number("r", &item.r)?, number("s", &item.s)?) {
        (Some(parity), Some(r), Some(s)) => (parity == 1, r, s),
        (None, None, None) if named.is_some() => return Ok(unsigned),
        _ => {
            return Err(refused(
                "needs yParity, r and s, or an authority of Tollgate that signs it",
            ));
        }
    };
    let signature = Some(AuthorizationSignature { y_parity, r, s });
    let signed = authorized_by(Authorization { signature, ..unsigned });
    let signed = signed.ok_or_else(|| refused("the signature is not valid"))?;
    match named {
        Some(named) if named != signed.authority => {
            Err(refused(&format!("signed by {}, not by the authority", signed.authority)))
        }
        Some(_) | None => Ok(signed),
    }
}

/// An intent with authorizations is a set-code transaction, and no other is one.
pub(super) fn check_set_code(intent: &mut Intent) -> Result<(), Problem> {
    let refused = |field: &str, what: &str| Problem::of_field(ErrorCode::InvalidField, field, what);
    match (intent.authorization_list.is_empty(), intent.kind) {
        (true, Some(TxKind::SetCode)) => {
            return Err(refused(LIST, "a transaction of type setCode has at least one"));
        }
        (true, _) => return Ok(()),
        (false, Some(TxKind::SetCode) | None) => intent.kind = Some(TxKind::SetCode),
        (false, Some(_)) => {
            let what = "authorizations need type setCode: leave out type, or the list";
            return Err(refused("payload.type", what));
        }
    }
    if intent.to.is_none() {
        return Err(Problem::missing("payload.to"));
    }
    // Not every node estimates a call with authorizations, and without them it is another call.
    if intent.gas.is_none() {
        return Err(Problem::missing("payload.gas"));
    }
    Ok(())
}
