-- The lowest open slot of a submitter that is neither mined nor used: what everything else of it waits for.
select tx_id, nonce, state
  from managed_tx indexed by managed_tx_open
 where chain_id = ?1 and submitter = ?2 and finished_at is null
   and nonce is not null and state not in (32, 67)
 order by nonce limit 1
