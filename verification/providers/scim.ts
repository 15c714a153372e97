import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { run } from './programs.ts'
import type { Part } from './run.ts'
import { startInstallation } from './stack.ts'

const packages = ['scim2-tester==0.5.2', 'scim2-client[httpx2]==0.13.2']
const installMs = 300_000
const testMs = 300_000

const program = `
import json, sys
from httpx2 import Client
from scim2_client.engines.httpx2 import SyncSCIMClient
from scim2_tester import check_server
url, key = sys.argv[1:]
client = SyncSCIMClient(Client(base_url=url, headers={"Authorization": "Bearer " + key}, timeout=30))
for result in check_server(client):
    what = " ".join(str(part) for part in (result.resource_type, result.title) if part)
    print(json.dumps({"status": result.status.name, "what": what, "reason": str(result.reason)[:2000]}))
`

const resultSchema = z.object({ status: z.string(), what: z.string(), reason: z.string() })
const bad: ReadonlySet<string> = new Set(['ERROR', 'CRITICAL'])

/** What the tester demands beyond RFC 7643 and RFC 7644. */
const beyondTheRfcs: readonly { readonly reason: RegExp; readonly why: string }[] = [
  {
    reason:
      /value='([^']+)', display=None, type='User', ref='([^']+)'[\s\S]*value='\1', display='[^']+', type='User', ref='\2'/,
    why: 'a server may add the name of a member (RFC 7643 §2.4, `display`)',
  },
]

export async function checkScim(part: Part): Promise<string | undefined> {
  const { folder, report } = part
  const environment = join(folder, 'python')
  try {
    const made = await run('python3', ['-m', 'venv', environment], { timeoutMs: 60_000 })
    if (made === undefined) return 'python3 is not installed'
    await run(join(environment, 'bin', 'pip'), ['install', '-q', ...packages], { timeoutMs: installMs })
  } catch (error) {
    return `${packages.join(', ')} cannot be installed: ${error instanceof Error ? error.message : 'unknown'}`
  }
  const installation = await startInstallation()
  part.atEnd(installation.stop)
  const { stack, ids } = installation
  const { key } = await stack.createKey({ id: ids['harbourline'] ?? '' }, { scopes: ['admin:sync'] })
  const file = join(folder, 'check.py')
  await writeFile(file, program)
  const url = `${stack.gateways[0] ?? ''}/scim/v2`
  const output = await run(join(environment, 'bin', 'python'), [file, url, key], { timeoutMs: testMs })
  const lines = (output ?? '').split('\n').filter((line) => line !== '')
  report.check('answers the tester', lines.length > 0)
  for (const line of lines) {
    const { status, what, reason } = resultSchema.parse(JSON.parse(line))
    const excuse = beyondTheRfcs.find((each) => each.reason.test(`${what}: ${reason}`))
    if (bad.has(status) && excuse !== undefined) {
      process.stdout.write(`scim2-tester: beyond the RFCs: ${what}: ${excuse.why}\n`)
    } else report.check(what, !bad.has(status), bad.has(status) ? reason.replaceAll('\n', ' ').slice(0, 300) : status)
  }
  return undefined
}
