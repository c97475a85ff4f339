-- A page of one chain's feed after a place, and the feed's end in the same snapshot; one row without a completion if there is none. Compared as a pair, so that no plan walks along other chains' completions.
select k.last_seq, f.seq, f.tx_id, f.chain_id, f.submitter, f.request_id, f.state, f.tx_hash, f.at
  from completion_counter k
  left join lateral (
    select c.seq, c.tx_id, c.chain_id, c.submitter, c.request_id, c.state, c.tx_hash, c.at
      from tx_completion c
     where (c.chain_id, c.seq) > ($1, $2)
       and (c.chain_id, c.seq) <= ($1, 9223372036854775807)
     order by c.chain_id, c.seq
     limit $3
  ) as f on true
 order by f.seq
