-- A page of the nonces that a submitter's transactions have, from one on: read from the index of slots.
select nonce
  from managed_tx indexed by managed_tx_slot
 where chain_id = ?1 and submitter = ?2 and nonce is not null and nonce >= ?3
 order by nonce limit ?4
