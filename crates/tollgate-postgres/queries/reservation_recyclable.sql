-- The caller did not use its nonce. No row: the caller's token is stale.
update nonce_reservation
   set state = 3, reason = $5, updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and nonce = $3 and owner_token = $4 and state = 1
returning chain_id, submitter, nonce, state, owner_token, deadline, tx_hash, reason
