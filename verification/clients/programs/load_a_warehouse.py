"""Runs the blocks of the guide: a first load, three changes, a load that is killed, and a second load."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import requests

os.environ["DESTINATION__DUCKDB__CREDENTIALS"] = f"duckdb:///{Path.cwd()}/postern.duckdb"
url = os.environ["POSTERN_URL"] + "/api/v1/findings"
session = requests.Session()
session.headers["Authorization"] = f"ApiKey {os.environ['POSTERN_KEY']}"
pandas_load, dlt_load = re.findall(r"^```py\n(.*?)^```$", Path(sys.argv[1]).read_text(), re.DOTALL | re.MULTILINE)
# Loads everything, and hangs before it stores where to continue.
killed = {
    pandas_load: pandas_load.replace("mark.write_text(", "import time; print('now', flush=True); time.sleep(600); ("),
    dlt_load: dlt_load.replace("        state[", "        import time; print('now', flush=True); time.sleep(600)\n        state["),
}


def load(code):
    subprocess.run([sys.executable, "-c", code], check=True)


def kill_in_the_middle(code):
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        if not any(line == "now\n" for line in process.stdout):
            raise SystemExit("the load ended before it was killed")
        process.kill()
    if process.returncode != -signal.SIGKILL:
        raise SystemExit(f"the load ended with {process.returncode}")


def compare(when):
    answer = session.get(url, params={"format": "ndjson"}, timeout=60)
    wanted = {row["id"]: row["title"] for row in map(json.loads, answer.text.splitlines())}
    with open("findings.csv", newline="") as file:
        by_pandas = [(row["id"], row["title"]) for row in csv.DictReader(file)]
    with duckdb.connect("postern.duckdb") as database:
        by_dlt = database.execute("select id, title from audit.findings").fetchall()
    for name, rows in ("pandas", by_pandas), ("dlt", by_dlt):
        if len(rows) != len(wanted) or dict(rows) != wanted:
            raise SystemExit(f"{name} has other rows than the API after the {when} load: {rows}, wanted {wanted}")
    return list(wanted)


for code in killed:
    load(code)
first, second, *_ = compare("first")
for id in first, second:
    changed = session.patch(f"{url}/{id}", json={"title": f"Changed at {time.time()}"}, headers={"If-Match": "*"}, timeout=60)
    changed.raise_for_status()
body = {"title": "A new one", "condition": "As seen.", "severity": "low"}
session.post(url, json=body, timeout=60).raise_for_status()
for code in killed.values():
    kill_in_the_middle(code)
for code in killed:
    load(code)
compare("second")
