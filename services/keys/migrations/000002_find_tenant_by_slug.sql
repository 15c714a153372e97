-- People whose provider names their tenant by its slug.

create function keys.find_tenant_id(wanted_slug text) returns uuid
language sql
stable
security definer
set search_path = ''
as $$
  select t.tenant_id from keys.tenant as t where t.slug = wanted_slug
$$;
call tenancy.give_function('keys.find_tenant_id(text)', 'postern_keys_definer', array['postern_keys']);
