-- A page of the nonces of a submitter's open transactions, from one on, in the order of the index of slots.
select nonce
  from managed_tx indexed by managed_tx_slot
 where chain_id = ?1 and submitter = ?2 and nonce is not null and nonce >= ?3
   and finished_at is null
 order by nonce limit ?4
