-- One entry of a submitter's audit trail.
insert into submitter_history (chain_id, submitter, at, node, fencing_token, event, detail)
values (?1, ?2, db_now(), ?3, ?4, ?5, ?6)
