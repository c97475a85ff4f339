-- The caller uses its nonce, or says so again. No row: the caller's token is stale.
update nonce_reservation
   set state = 2, tx_hash = $5, updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and nonce = $3 and owner_token = $4
   and (state = 1 or state = 2 and tx_hash = $5)
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason
