-- A page of a submitter's nonces that are used, from ?3 on, lowest first.
select nonce from nonce_reservation
 where chain_id = ?1 and submitter = ?2 and nonce >= ?3 and state = 2 order by nonce limit ?4
