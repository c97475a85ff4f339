//! Checks the authorizations of set-code transactions, and signs those of own accounts.
//!
//! Asks the store, which knows the accounts of all nodes, and the chain. Writes nothing: the nonce of an own
//! authority was taken from its cursor by a reservation before.

use tollgate_model::authorization::{Authority, Authorization, AuthorizationRefused, judge};
use tollgate_model::{Intent, Nonce, Submitter};

use crate::context::Context;
use crate::create::CreateError;

/// Refuses authorizations that would use a nonce of an own account without a reservation, and signs what is not
/// signed.
pub(crate) async fn authorize(
    context: &Context,
    submitter: Submitter,
    intent: &mut Intent,
) -> Result<(), CreateError> {
    let is_raw = intent.signed.is_some();
    for (place, item) in intent.authorization_list.iter_mut().enumerate() {
        let refused = |why| CreateError::Authorization { place: (!is_raw).then_some(place), why };
        let authority = authority_of(context, submitter, item).await?;
        judge(item, submitter.chain_id, authority).map_err(refused)?;
        if item.signature.is_none() {
            let signed = context.signer.authorize(item).await;
            let no_key = |_| refused(AuthorizationRefused::NoKey(item.authority));
            item.signature = Some(signed.map_err(no_key)?);
        }
    }
    Ok(())
}

async fn authority_of(
    context: &Context,
    submitter: Submitter,
    item: &Authorization,
) -> Result<Authority, CreateError> {
    if item.authority == submitter.address {
        return Ok(Authority::Sender);
    }
    let account = Submitter::new(submitter.chain_id, item.authority);
    if context.store.submitter(account).await?.is_none() {
        return Ok(Authority::Foreign);
    }
    let used_for = match Nonce::new(item.nonce) {
        Ok(nonce) => context.store.used_for(account, nonce).await?,
        Err(_) => None,
    };
    let mined = context.chain.counts(item.authority).await?.mined;
    let has_key = context.signer.signs_for(item.authority);
    Ok(Authority::Own { used_for, mined, has_key })
}
