-- What no tenant may do is answered with one state everywhere: a change that is given away as any other row.
create or replace function sync.keep_run() returns trigger
  language plpgsql
  set search_path = ''
as $$
begin
  raise exception using
    errcode = 'insufficient_privilege', schema = 'sync', table = tg_table_name, constraint = tg_table_name || '_kept',
    message = 'the row stays with the run that it was made for';
end
$$;
