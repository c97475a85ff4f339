-- A page of a chain's submitters with their owners, after a place.
select c.chain_id, c.submitter, c.next_nonce, c.mode, c.status, c.status_reason,
       l.owner_node, l.fencing_token, n.advertise_url,
       greatest(0, extract(epoch from l.expires_at - clock_timestamp()) * 1000000)::bigint
         as remaining_micros
  from submitter_cursor c
  left join submitter_lease l
         on l.chain_id = c.chain_id and l.submitter = c.submitter and l.owner_node <> ''
  left join node n on n.node_id = l.owner_node
 where c.chain_id = $1 and c.submitter > $2
 order by c.submitter
 limit $3
