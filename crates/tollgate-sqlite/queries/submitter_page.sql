-- A page of submitters with their owners, in the order of chain and address, after (?1, ?2).
select c.chain_id, c.submitter, c.next_nonce, c.mode, c.status, c.status_reason,
       l.owner_node, l.fencing_token, n.advertise_url, max(l.expires_at - db_now(), 0) as remaining
  from submitter_cursor c
  left join submitter_lease l
    on l.chain_id = c.chain_id and l.submitter = c.submitter and l.owner_node <> ''
  left join node n on n.node_id = l.owner_node
 where (c.chain_id, c.submitter) > (?1, ?2)
 order by c.chain_id, c.submitter
 limit ?3
