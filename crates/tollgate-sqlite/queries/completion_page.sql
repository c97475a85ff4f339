-- A page of outcomes of chain ?1 after seq ?2, in the order of commits (I10), and the feed's end in the same snapshot; one row without an outcome if there is none.
select f.seq, f.tx_id, f.chain_id, f.submitter, f.request_id, f.state, f.tx_hash, f.at, k.last_seq
  from completion_counter k
  left join (
    select seq, tx_id, chain_id, submitter, request_id, state, tx_hash, at
      from tx_completion indexed by tx_completion_chain
     where chain_id = ?1 and seq > ?2 order by seq limit ?3) as f on true
 order by f.seq
