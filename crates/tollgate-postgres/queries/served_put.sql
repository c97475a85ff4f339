-- Publishes a set of accounts; nothing happens if another node did so meanwhile.
insert into served_set (digest, accounts) values ($1, $2) on conflict do nothing
