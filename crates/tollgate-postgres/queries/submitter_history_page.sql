-- A page of one submitter's audit trail, oldest first.
select number, at, node, fencing_token, event, detail
  from submitter_history
 where chain_id = $1 and submitter = $2 and number > $3
 order by number
 limit $4
