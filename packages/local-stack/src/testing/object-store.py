"""OpenStack Swift with its S3 API in one process, for tests: a proxy, and one server each of accounts, containers and
objects, on one disk, bound to the loopback address. Arguments: folder of its data, port. The account is read from
standard input: access key and secret key, a line each."""

import array
import gzip
import json
import logging
import logging.handlers
import os
import struct
import sys

import eventlet

eventlet.patcher.monkey_patch(all=False, socket=True, select=True, thread=True)

from eventlet import wsgi
from swift.common import utils
from swift.common.wsgi import loadapp

HOST = "127.0.0.1"
home, port = sys.argv[1], int(sys.argv[2])
access_key, secret_key = sys.stdin.read().split()
account, user = access_key.split(":")
utils.HASH_PATH_SUFFIX = b"postern"


class ToStandardError(logging.StreamHandler):
    """Stands for syslog: what goes wrong is in the log file of this process."""

    LOG_LOCAL0 = 0

    def __init__(self, *_args, **_named):
        super().__init__(sys.stderr)


logging.handlers.SysLogHandler = ToStandardError


class Memory(dict):
    """Stands for memcached, which the servers ask for what they have just looked up."""

    def __bool__(self):
        return True

    def get(self, key, *_args, **_named):
        return dict.get(self, key)

    def set(self, key, value, *_args, **_named):
        self[key] = value

    def incr(self, key, delta=1, *_args, **_named):
        self[key] = dict.get(self, key, 0) + int(delta)
        return self[key]

    def delete(self, key, *_args, **_named):
        self.pop(key, None)


def write_configuration(name, text):
    path = os.path.join(home, name + ".conf")
    with open(path, "w") as file:
        file.write(text)
    return path


def write_ring(name, server_port):
    """One partition, one copy, one disk."""
    disk = dict(id=0, region=1, zone=1, weight=1.0, device="disk", meta="", ip=HOST, port=server_port)
    disk.update(replication_ip=HOST, replication_port=server_port)
    meta = json.dumps(dict(devs=[disk], part_shift=32, replica_count=1, byteorder=sys.byteorder)).encode()
    with gzip.open(os.path.join(home, name + ".ring.gz"), "wb") as file:
        file.write(struct.pack("!4sHI", b"R1NG", 1, len(meta)) + meta + array.array("H", [0]).tobytes())


os.makedirs(os.path.join(home, "devices", "disk"), exist_ok=True)
servers = []
for name in ("account", "container", "object"):
    socket = eventlet.listen((HOST, 0))
    write_ring(name, socket.getsockname()[1])
    configuration = f"""
[DEFAULT]
swift_dir = {home}
devices = {home}/devices
mount_check = false
log_level = ERROR
disable_fallocate = true
fallocate_reserve = 0
[pipeline:main]
pipeline = {name}-server
[app:{name}-server]
use = egg:swift#{name}
"""
    servers.append((socket, loadapp(write_configuration(name, configuration))))

proxy = loadapp(
    write_configuration(
        "proxy",
        f"""
[DEFAULT]
swift_dir = {home}
log_level = ERROR
[pipeline:main]
pipeline = catch_errors s3api tempauth slo proxy-server
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
s3_acl = true
min_segment_size = 5242880
[filter:tempauth]
use = egg:swift#tempauth
user_{account}_{user} = {secret_key} .admin
[filter:slo]
use = egg:swift#slo
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
""",
    )
)
memory = Memory()


def serve(environ, start_response):
    environ["swift.cache"] = memory
    return proxy(environ, start_response)


servers.append((eventlet.listen((HOST, port)), serve))
quiet = open(os.devnull, "w")
threads = [eventlet.spawn(wsgi.server, socket, app, quiet, max_size=1000) for socket, app in servers]
for thread in threads:
    thread.wait()
