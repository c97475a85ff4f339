-- Replaces since when nothing is proven about the slots of transactions.
insert into tx_unproven (tx_id, since)
select u.tx_id, u.since from unnest($1::uuid[], $2::timestamptz[]) as u (tx_id, since)
on conflict (tx_id) do update set since = excluded.since
