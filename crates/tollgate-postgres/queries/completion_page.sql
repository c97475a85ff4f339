-- A page of the feed after a place.
select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
  from tx_completion
 where seq > $1
 order by seq
 limit $2
