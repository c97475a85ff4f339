-- An event, written with the change that it tells of.
insert into outbox (kind, key, tx_id, body, created_at) values (?1, ?2, ?3, ?4, db_now())
