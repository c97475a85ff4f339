-- The lowest open slot of a submitter that is neither mined nor used: what everything else of it waits for. Open
-- rows are found by their own index; in the order of nonces the finished ones would come first.
with open_slot as materialized (
  select m.tx_id, m.nonce, m.state
    from managed_tx m
   where m.chain_id = $1 and m.submitter = $2 and m.finished_at is null
)
select tx_id, nonce, state
  from open_slot
 where nonce is not null and state not in (32, 67)
 order by nonce
 limit 1
