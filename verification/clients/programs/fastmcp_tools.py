import asyncio
import json
import os
import sys

import httpx
from fastmcp import Client, FastMCP

with open(sys.argv[1]) as file:
    document = json.load(file)
connection = httpx.AsyncClient(
    base_url=os.environ["POSTERN_URL"],
    headers={"authorization": f"ApiKey {os.environ['POSTERN_KEY']}"},
)
server = FastMCP.from_openapi(openapi_spec=document, client=connection, name="postern")


async def main():
    async with Client(server) as client:
        names = [tool.name for tool in await client.list_tools()]
        if "listFindings" not in names:
            raise SystemExit(f"there is no tool listFindings among {names}")
        answer = await client.call_tool("listFindings", {"limit": 2})
        text = answer.content[0].text
        found = json.loads(text)
        items = found["result"] if isinstance(found, dict) else found
        if len(items) != 2:
            raise SystemExit(f"found {text}, wanted two findings")


asyncio.run(main())
