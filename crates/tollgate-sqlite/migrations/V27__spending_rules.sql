-- The transactions that an account may send: the highest value of one, and the calls that are allowed, with commas
-- between them. Null allows everything.
alter table account add column max_value text;
alter table account add column allowed_calls text check (length(allowed_calls) between 1 and 20000);
