-- Resumable uploads go on at any replica. Who writes has a turn; how many bytes of each turn count is kept here, and what
-- a replica writes after it has lost the turn counts for nothing.

alter table evidence.upload
  add column turn integer not null default 0,
  add column arrived bigint not null default 0,
  add constraint upload_turn_not_negative check (turn >= 0),
  add constraint upload_arrived_in_length check (arrived between 0 and length);
comment on column evidence.upload.turn is 'The turn that was given out last.';
comment on column evidence.upload.arrived is 'Bytes that count: the lengths of its pieces.';

create table evidence.upload_piece (
  tenant_id uuid not null,
  upload_id uuid not null,
  turn integer not null,
  is_checked boolean not null,
  length bigint,
  constraint upload_piece_pk primary key (tenant_id, upload_id, turn),
  constraint upload_piece_upload_fk foreign key (tenant_id, upload_id)
    references evidence.upload (tenant_id, id) on delete cascade,
  constraint upload_piece_turn_positive check (turn > 0),
  constraint upload_piece_length_not_negative check (length >= 0)
);
comment on table evidence.upload_piece is
  'What was written in one turn. length is null for as long as the turn lasts; is_checked says that it counts whole or not at all.';

-- One turn at a time, kept by the database.
create unique index upload_piece_one_open on evidence.upload_piece (tenant_id, upload_id) where length is null;

call tenancy.protect_table('evidence.upload_piece', 'postern_evidence', array['select', 'insert', 'update']);
