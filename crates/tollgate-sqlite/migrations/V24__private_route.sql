-- Submitters with private transactions. A node of the version before knows no routes and would hand their bytes to
-- public endpoints, so it must not own them: it takes a lease over without routes_token, which the check refuses.
alter table submitter_lease add column is_private integer not null default 0;
alter table submitter_lease add column routes_token integer
  check (is_private = 0 or owner_node = '' or routes_token is fencing_token);
