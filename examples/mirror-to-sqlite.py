"""Keeps an SQLite file equal to the findings, action plans, tracker logs and audit universe of a tenant.

    python3 mirror-to-sqlite.py [FILE] [ROWS A PAGE]

The first run reads everything, later ones only what has changed. A run that was interrupted continues where it stopped,
because each page and the place behind it are stored together.
"""

import json
import os
import sqlite3
import sys
import urllib.error
import urllib.parse
import urllib.request

file = sys.argv[1] if len(sys.argv) > 1 else "postern.db"
page_size = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
base = os.environ["POSTERN_URL"].rstrip("/")
key = os.environ["POSTERN_KEY"]

# The kind in the change feed, the table, the path, and the members that become columns beside the whole content.
resources = [
    ("finding", "findings", "/api/v1/findings", ["reference", "title", "severity", "status", "target_date"]),
    ("action_plan", "action_plans", "/api/v1/action-plans", ["finding_id", "title", "status", "due_date"]),
    ("entity", "entities", "/api/v1/entities", ["reference", "name", "type", "status", "parent_id"]),
]
log_path = "/api/v1/remediation-log"


def get(target, **query):
    """Returns the body and the headers. `target` is a path or a whole URL."""
    url = urllib.parse.urljoin(base + "/", base + target if target.startswith("/") else target)
    if query:
        url += "?" + urllib.parse.urlencode(query)
    request = urllib.request.Request(url, headers={"Authorization": "ApiKey " + key})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response), response.headers


def next_of(headers):
    """Returns the target of rel="next", or an empty text on the last page."""
    for part in (headers["Link"] or "").split(","):
        target, _, parameters = part.partition(";")
        if 'rel="next"' in parameters:
            return urllib.parse.urljoin(base + "/", target.strip(" <>"))
    return ""


def open_mirror():
    db = sqlite3.connect(file)
    db.execute("create table if not exists state (name text primary key, value text not null)")
    for _, table, _, members in resources:
        columns = "".join(f", {name} text as (json_extract(content, '$.{name}'))" for name in members)
        db.execute(f"create table if not exists {table} (id text primary key, content text not null{columns})")
    db.execute("create table if not exists log (position integer primary key, finding_id text, content text not null)")
    return db


def remember(db, name, value):
    db.execute("insert or replace into state values (?, ?)", (name, value))


def recall(db, name, otherwise=None):
    row = db.execute("select value from state where name = ?", (name,)).fetchone()
    return otherwise if row is None else row[0]


def store(db, table, rows):
    values = [(row["id"], json.dumps(row)) for row in rows]
    db.executemany(f"insert or replace into {table} (id, content) values (?, ?)", values)


def read_lists(db):
    for _, table, path, _ in resources:
        first = f"{path}?limit={page_size}"
        target = recall(db, table, first)
        while target:
            rows, headers = get(target)
            target = next_of(headers)
            with db:
                store(db, table, rows)
                remember(db, table, target)
            print(f"{table}: {len(rows)} rows", flush=True)


def read_log(db):
    """The log only grows, so that the last position is enough to continue."""
    while True:
        (last,) = db.execute("select coalesce(max(position), 0) from log").fetchone()
        entries, headers = get(log_path, since=last, limit=page_size)
        values = [(entry["position"], entry["finding_id"], json.dumps(entry)) for entry in entries]
        with db:
            db.executemany("insert or replace into log values (?, ?, ?)", values)
        if not next_of(headers):
            return


def follow_changes(db):
    known = {kind: (table, path) for kind, table, path, _ in resources}
    target, query = "/api/v1/changes", {"since": recall(db, "mark")}
    while target:
        changes, headers = get(target, **query)
        with db:
            for kind, id in {(change["kind"], change["id"]) for change in changes}:
                if kind not in known:
                    continue
                table, path = known[kind]
                try:
                    store(db, table, [get(f"{path}/{id}")[0]])
                except urllib.error.HTTPError as error:
                    if error.code != 404:
                        raise
                    db.execute(f"delete from {table} where id = ?", (id,))
            remember(db, "mark", headers["Postern-Next-Since"])
        target, query = next_of(headers), {}


def main():
    db = open_mirror()
    if recall(db, "mark") is None:
        # Taken first, so that no change during the first run is missed.
        _, headers = get("/api/v1/changes", since="now")
        with db:
            remember(db, "mark", headers["Postern-Next-Since"])
    read_lists(db)
    try:
        follow_changes(db)
    except urllib.error.HTTPError as error:
        if error.code != 410:
            raise
        sys.exit(f"The changes since the last run are no longer kept. Delete {file} and run again.")
    read_log(db)
    for table in [table for _, table, _, _ in resources] + ["log"]:
        (count,) = db.execute(f"select count(*) from {table}").fetchone()
        print(f"{count} in {table}")


try:
    main()
except urllib.error.HTTPError as error:
    problem = json.load(error)
    sys.exit(f"{problem['title']}. {problem.get('detail', '')} (request {problem['instance']})")
