-- The audit entry of one version of a row.
insert into tx_history (
  tx_id, version, at, node, fencing_token, event, from_state, to_state, detail)
values (?1, ?2, db_now(), ?3, ?4, ?5, ?6, ?7, ?8)
