-- A signed form, kept for ever (I5).
insert into tx_attempt (
  tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee, max_priority_fee, created_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, db_now())
