-- How many nonces callers hold.
select count(*) from nonce_reservation where chain_id = $1 and submitter = $2 and state = 1
