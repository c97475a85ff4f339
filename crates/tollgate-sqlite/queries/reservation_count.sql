-- How many nonces are in callers' hands.
select count(*) from nonce_reservation indexed by nonce_reservation_live
 where chain_id = ?1 and submitter = ?2 and state <> 2 and state = 1
