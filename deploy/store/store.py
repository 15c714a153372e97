"""The evidence store of the compose file: OpenStack Swift with its S3 API in one process, on one disk.

The proxy is public. The account, container and object servers listen on the loopback address only.

- Durability: names and bytes are on the disk before the response, so the process or machine may be killed at any time.
- Deletion: nothing of a deleted object remains after a day.
- Users: a file has one line with access key and secret for each user. A change of the file takes effect without a restart.
- The bucket is created at the start.
"""

import argparse
import array
import glob
import gzip
import json
import logging
import logging.handlers
import os
import re
import signal
import struct
import sys
import time
from time import monotonic

import eventlet

eventlet.patcher.monkey_patch(all=False, socket=True, select=True, thread=True)


class ToStandardError(logging.StreamHandler):
    """Replaces syslog, so that errors appear in the log of this process. Must be installed before Swift is imported."""

    LOG_LOCAL0 = 0
    priority_map = {}

    def __init__(self, *_args, **_named):
        super().__init__(sys.stderr)


logging.handlers.SysLogHandler = ToStandardError

from eventlet import wsgi  # noqa: E402
from swift.account.backend import AccountBroker  # noqa: E402
from swift.common import db, utils  # noqa: E402
from swift.common.storage_policy import POLICIES  # noqa: E402
from swift.common.swob import Request  # noqa: E402
from swift.common.wsgi import ConfigString, loadapp  # noqa: E402
from swift.container.backend import ContainerBroker  # noqa: E402
from swift.obj.diskfile import DiskFileRouter  # noqa: E402
from swift.obj.updater import ObjectUpdater  # noqa: E402

LOOPBACK = "127.0.0.1"
READ_USERS_EVERY_S = 1
RETRY_LISTINGS_EVERY_S = 5
LINE = re.compile(r"([a-z0-9]+):([a-z0-9-]+) ([A-Za-z0-9_-]{16,})")

arguments = argparse.ArgumentParser()
for name in ("data", "users", "host", "port", "bucket"):
    arguments.add_argument("--" + name, required=name not in ("host", "bucket"), default=LOOPBACK if name == "host" else None)
arguments.add_argument("--forget-after", type=float, default=86_400, help="seconds after which traces of deleted objects are removed")
given = arguments.parse_args()

# Determines where objects are stored. With another value, existing objects would not be found.
utils.HASH_PATH_SUFFIX = b"postern"


def record_synced(broker, record):
    """Writes a name to the synced database before the response. Swift would append it to a file that it does not sync."""
    with utils.lock_parent_directory(broker.pending_file, broker.pending_timeout):
        broker.merge_items([record])


db.DatabaseBroker.put_record = record_synced
open_database = db.get_db_connection


def open_synced(*args, **named):
    """Opens a database whose commits are on the disk, including the removal of the journal (EXTRA), and overwrites deleted rows."""
    connection = open_database(*args, **named)
    for setting in ("synchronous = EXTRA", "secure_delete = ON"):
        connection.execute("PRAGMA " + setting)
    return connection


db.get_db_connection = open_synced


class Memory(dict):
    """Replaces memcached, in which the servers cache look-ups. It stays small: its keys belong to one account and bucket."""

    def __bool__(self):
        return True

    def get(self, key, *_args, **_named):
        value, ends = dict.get(self, key, (None, 0))
        return value if monotonic() < ends else None

    def set(self, key, value, *_args, time=0, **_named):
        self[key] = (value, monotonic() + (time or 60))

    def incr(self, key, delta=1, *_args, time=0, **_named):
        value = (self.get(key) or 0) + int(delta)
        self.set(key, value, time=time)
        return value

    def delete(self, key, *_args, **_named):
        self.pop(key, None)


def read_users():
    """Returns (account, user, secret) for each line. All must have the same account."""
    with open(given.users) as file:
        lines = [line for line in file.read().split("\n") if line]
    users = [LINE.fullmatch(line) for line in lines]
    if not users or None in users or len({user[1] for user in users}) != 1:
        raise ValueError(given.users + " must have lines of the form `account:user secret`, all with the same account")
    return [user.groups() for user in users]


rings = os.path.join(given.data, "rings")
devices = os.path.join(given.data, "devices")
disk = os.path.join(devices, "disk")
for folder in (rings, disk):
    os.makedirs(folder, mode=0o700, exist_ok=True)

# Generous timeouts: a server in this process may be slow but cannot be gone, and there is no other replica.
COMMON = f"""
[DEFAULT]
swift_dir = {rings}
devices = {devices}
recon_cache_path = {given.data}
mount_check = false
log_level = ERROR
conn_timeout = 10
node_timeout = 20
disable_fallocate = true
fallocate_reserve = 0
"""


def write_ring(kind, port):
    """Writes a ring with one partition, one replica and one disk."""
    device = dict(id=0, region=1, zone=1, weight=1.0, device="disk", meta="", ip=LOOPBACK, port=port)
    device.update(replication_ip=LOOPBACK, replication_port=port)
    meta = json.dumps(dict(devs=[device], part_shift=32, replica_count=1, byteorder=sys.byteorder)).encode()
    path = os.path.join(rings, kind + ".ring.gz")
    with gzip.open(path + ".new", "wb") as file:
        file.write(struct.pack("!4sHI", b"R1NG", 1, len(meta)) + meta + array.array("H", [0]).tobytes())
    os.replace(path + ".new", path)


def load_proxy(filters, sections=""):
    return loadapp(
        ConfigString(
            f"""{COMMON}
error_suppression_limit = 1000000000
[pipeline:main]
pipeline = {filters} proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[app:proxy-server]
use = egg:swift#proxy
conn_timeout = 10
node_timeout = 30
error_suppression_limit = 1000000000
account_autocreate = true
{sections}
"""
        )
    )


def load_public(users):
    """Loads the public proxy. Each user in the file has full access to the account."""
    accounts = "\n".join(f"user_{account}_{user} = {secret} .admin" for account, user, secret in users)
    return load_proxy(
        "catch_errors healthcheck s3api tempauth slo",
        f"""
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
min_segment_size = 5242880
max_upload_part_num = 10000
[filter:tempauth]
use = egg:swift#tempauth
{accounts}
[filter:slo]
use = egg:swift#slo
max_manifest_segments = 10000
""",
    )


def create_bucket(account):
    """Creates the bucket, so that users do not have to."""
    inner = load_proxy("catch_errors")
    path = f"/v1/AUTH_{account}/{given.bucket}"
    answer = Request.blank(path, environ={"REQUEST_METHOD": "PUT", "swift.cache": memory}).get_response(inner)
    if answer.status_int not in (201, 202):
        raise RuntimeError("the bucket could not be created: " + answer.status)


def retry_listings():
    """Records names that could not be recorded when their objects were stored."""
    updater = ObjectUpdater(dict(swift_dir=rings, devices=devices, mount_check="false", interval="300", log_level="ERROR"))
    while True:
        try:
            updater.begin = time.time()
            updater.object_sweep(disk)
        except Exception as error:
            print("names could not be recorded:", error, file=sys.stderr)
        eventlet.sleep(RETRY_LISTINGS_EVERY_S)


def remove_traces():
    """Removes what Swift leaves to its replicators: markers of deletions, and files of interrupted writes."""
    router = DiskFileRouter(dict(devices=devices, mount_check="false", reclaim_age=given.forget_after), logging.getLogger())
    manager = router[POLICIES[0]]
    while True:
        eventlet.sleep(min(given.forget_after, 3600))
        before = time.time() - given.forget_after
        for kind, broker in (("containers", ContainerBroker), ("accounts", AccountBroker)):
            for path in glob.glob(os.path.join(disk, kind, "*", "*", "*", "*.db")):
                attempt(lambda path=path, broker=broker: broker(path).reclaim(before, before))
        for path in glob.glob(os.path.join(disk, "tmp", "*")):
            attempt(lambda path=path: os.path.getmtime(path) < before and os.unlink(path))
        # Swift collects suffixes for replicators, which do not exist here.
        for path in glob.glob(os.path.join(disk, "objects", "*", "hashes.invalid")):
            attempt(lambda path=path: os.truncate(path, 0))
        for suffix in glob.glob(os.path.join(disk, "objects", "*", "[0-9a-f][0-9a-f][0-9a-f]")):
            for folder in glob.glob(os.path.join(suffix, "*")):
                attempt(lambda folder=folder: manager.cleanup_ondisk_files(folder)["files"] or os.rmdir(folder))
            # Let requests run.
            eventlet.sleep(0.01)


def attempt(work):
    try:
        work()
    except FileNotFoundError:
        pass
    except Exception as error:
        print("traces of a deleted object could not be removed:", error, file=sys.stderr)


def follow_users(users):
    """Reloads the users when the file changes. Keeps the old ones if the file is invalid."""
    global public
    while True:
        eventlet.sleep(READ_USERS_EVERY_S)
        try:
            now = read_users()
            if now != users:
                public = load_public(now)
                users = now
        except Exception as error:
            print("the users could not be reloaded:", error, file=sys.stderr)


# As process 1 of its container, it must handle signals itself. It can exit at once, because its responses are on the disk.
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: os._exit(0))

memory = Memory()
known = read_users()
quiet = open(os.devnull, "w")
for kind in ("account", "container", "object"):
    server = eventlet.listen((LOOPBACK, 0))
    write_ring(kind, server.getsockname()[1])
    app = loadapp(
        ConfigString(
            f"""{COMMON}
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
# Longer than a container server takes. Waits for its response; failures are recorded for retry_listings.
container_update_timeout = 60
"""
        )
    )
    eventlet.spawn(wsgi.server, server, app, quiet, max_size=1000)
eventlet.spawn(retry_listings)
eventlet.spawn(remove_traces)
if given.bucket is not None:
    create_bucket(known[0][0])
public = load_public(known)
eventlet.spawn(follow_users, known)


def serve(environ, start_response):
    environ["swift.cache"] = memory

    def start_without_body(status, headers, exc_info=None):
        """Adds a length to a response to HEAD. Without one, the server would send a chunked body, which clients take for the next response."""
        if not any(name.lower() == "content-length" for name, _value in headers):
            headers = [*headers, ("Content-Length", "0")]
        return start_response(status, headers, exc_info)

    return public(environ, start_without_body if environ["REQUEST_METHOD"] == "HEAD" else start_response)


wsgi.server(eventlet.listen((given.host, int(given.port)), backlog=1024), serve, quiet, max_size=1000)
