-- A page of chain ?1's submitters with their owners, in the order of their addresses, after ?2.
select c.chain_id, c.submitter, c.next_nonce, c.mode, c.status, c.status_reason,
       l.owner_node, l.fencing_token, n.advertise_url, max(l.expires_at - db_now(), 0) as remaining
  from submitter_cursor c
  left join submitter_lease l
    on l.chain_id = c.chain_id and l.submitter = c.submitter and l.owner_node <> ''
  left join node n on n.node_id = l.owner_node
 where c.chain_id = ?1 and c.submitter > ?2
 order by c.submitter
 limit ?3
