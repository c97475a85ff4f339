-- Returns nonces whose deadline has passed to the pool.
update nonce_reservation
   set state = 3, reason = 'expired', updated_at = clock_timestamp()
 where chain_id = $1 and submitter = $2 and state = 1 and deadline <= clock_timestamp()
returning nonce
