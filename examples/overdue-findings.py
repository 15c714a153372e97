"""Writes the overdue findings as CSV, the oldest target date first."""

import csv
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

base = os.environ["POSTERN_URL"].rstrip("/")
key = os.environ["POSTERN_KEY"]


def next_target(link):
    """Returns the target of rel="next" in a Link header, or None on the last page."""
    for part in (link or "").split(","):
        target, _, parameters = part.partition(";")
        if 'rel="next"' in parameters:
            return urllib.parse.urljoin(base + "/", target.strip(" <>"))
    return None


def read_all(target):
    while target:
        request = urllib.request.Request(target, headers={"Authorization": "ApiKey " + key})
        with urllib.request.urlopen(request, timeout=60) as response:
            yield from json.load(response)
            target = next_target(response.headers["Link"])


def main():
    query = urllib.parse.urlencode({"overdue": "true", "sort": "target_date", "limit": 500})
    table = csv.writer(sys.stdout)
    table.writerow(["reference", "severity", "target_date", "title"])
    for finding in read_all(base + "/api/v1/findings?" + query):
        table.writerow([finding["reference"], finding["severity"], finding["target_date"], finding["title"]])


try:
    main()
except urllib.error.HTTPError as error:
    problem = json.load(error)
    sys.exit(f"{problem['title']}. {problem.get('detail', '')} (request {problem['instance']})")
