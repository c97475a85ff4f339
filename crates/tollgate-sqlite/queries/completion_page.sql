-- A page of outcomes after seq ?1, in the order of commits (I10).
select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
  from tx_completion where seq > ?1 order by seq limit ?2
