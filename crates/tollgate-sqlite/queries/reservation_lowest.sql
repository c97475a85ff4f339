-- The lowest free nonce that is not below ?3.
select nonce from nonce_reservation indexed by nonce_reservation_live
 where chain_id = ?1 and submitter = ?2 and nonce >= ?3 and state <> 2 and state = 3
 order by nonce limit 1
