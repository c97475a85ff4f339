-- Replaces how long a transaction has been waited for.
insert into tx_patience (tx_id, since, resends) values (?1, ?2, ?3)
on conflict (tx_id) do update set since = excluded.since, resends = excluded.resends
