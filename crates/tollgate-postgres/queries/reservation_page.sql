-- A page of a submitter's nonces that are in callers' hands or in the pool, lowest first.
select chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason
  from nonce_reservation
 where chain_id = $1 and submitter = $2 and nonce > $3 and state <> 2
 order by nonce
 limit $4
