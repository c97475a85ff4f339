-- Nonces whose holder's time is over go back to the pool.
update nonce_reservation indexed by nonce_reservation_live
   set state = 3, reason = 'expired', updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and state <> 2 and state = 1 and deadline <= db_now()
returning nonce
