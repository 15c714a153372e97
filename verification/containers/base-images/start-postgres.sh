#!/bin/sh
# Like the public image: starts as root, sets the owner of the folder, and continues as postgres.
set -e
data="${PGDATA:-/var/lib/postgresql/data}"
if [ "$(id -u)" = 0 ]; then
  if [ -n "$POSTGRES_PASSWORD_FILE" ]; then POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE"); fi
  mkdir -p "$data"
  chown -R postgres /var/lib/postgresql "$data"
  chmod 700 "$data"
  (umask 077 && printf %s "$POSTGRES_PASSWORD" >/var/lib/postgresql/password && chown postgres /var/lib/postgresql/password)
  exec setpriv --reuid=postgres --regid=postgres --clear-groups env --unset=POSTGRES_PASSWORD sh "$0" "$@"
fi
if [ ! -f "$data/PG_VERSION" ]; then
  /opt/postgresql/bin/initdb --pgdata="$data" --username=postgres --pwfile=/var/lib/postgresql/password --encoding=UTF8 --locale=C \
    --locale-provider=builtin --builtin-locale=C.UTF-8 --auth-local=trust --auth-host=scram-sha-256
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
fi
rm -f /var/lib/postgresql/password
shift
exec /opt/postgresql/bin/postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories='' "$@"
