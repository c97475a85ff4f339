-- Publishes the accounts ?2 under their digest ?1; nothing happens if they are already.
insert into served_set (digest, accounts, published_at) values (?1, ?2, db_now())
on conflict do nothing
