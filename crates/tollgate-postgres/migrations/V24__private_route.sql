-- Submitters with private transactions. A node of the version before knows no routes and would hand their bytes to
-- public endpoints, so it must not own them: it takes a lease over without routes_token, which the check refuses.
alter table submitter_lease add column is_private boolean not null default false;
alter table submitter_lease add column routes_token bigint;
alter table submitter_lease add constraint lease_owner_knows_routes
  check (not is_private or owner_node = '' or routes_token is not distinct from fencing_token);
