-- What is doubtful in a row that is taken in all the same stands among the errors of its run, as a warning.
--
-- suits the running release: it names no severity, hence writes errors.

alter table sync.run_error
  add column severity text not null default 'error',
  add constraint run_error_severity_known check (severity in ('error', 'warning')) not valid;
comment on column sync.run_error.severity is 'error: the row, or what it would change, was not taken in. warning: it was.';
