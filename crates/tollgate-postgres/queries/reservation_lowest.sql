-- The lowest nonce of the pool that the chain has not passed.
select nonce
  from nonce_reservation
 where chain_id = $1 and submitter = $2 and nonce >= $3 and state = 3
 order by nonce
 limit 1
