-- The caller did not use its nonce. No row: the caller's token is stale.
update nonce_reservation
   set state = 3, reason = $5, updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and nonce = $3 and owner_token = $4 and state = 1
