-- One entry of a submitter's audit trail. The cursor's lock is held.
insert into submitter_history (chain_id, submitter, node, fencing_token, event, detail)
values ($1, $2, $3, $4, $5, $6)
