-- Marks what is in the pool below the mined count as used (I3).
update nonce_reservation
   set state = 2, reason = 'passed by the chain', updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and nonce < $3 and state <> 2 and state = 3
returning nonce
