-- A row if the nonce is in the pool of free ones. BEGIN IMMEDIATE holds it still.
select 1 from nonce_reservation
 where chain_id = ?1 and submitter = ?2 and nonce = ?3 and state = 3
