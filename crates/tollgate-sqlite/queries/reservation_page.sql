-- A page of a submitter's nonces that are not spent, lowest first, after ?3.
select nonce, state, owner_token, deadline, tx_hash, reason
  from nonce_reservation indexed by nonce_reservation_live
 where chain_id = ?1 and submitter = ?2 and nonce > ?3 and state <> 2
 order by nonce limit ?4
