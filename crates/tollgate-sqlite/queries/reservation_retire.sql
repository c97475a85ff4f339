-- What is in the pool below the mined count (?3) is spent (I3).
update nonce_reservation indexed by nonce_reservation_live
   set state = 2, reason = 'passed by the chain', updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and nonce < ?3 and state <> 2 and state = 3
returning nonce
