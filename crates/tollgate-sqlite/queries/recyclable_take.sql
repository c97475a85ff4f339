-- A managed transaction takes a nonce from the pool of free ones (I3).
update nonce_reservation set state = 2, tx_hash = ?4, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and nonce = ?3 and state = 3
