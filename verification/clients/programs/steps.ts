import { createHash, randomBytes } from 'node:crypto'

interface Page {
  readonly status: number
  readonly items: readonly unknown[]
  readonly link: string | null
}

export interface GeneratedClient {
  list(query: { readonly limit: number; readonly cursor?: string }): Promise<Page>
  create(finding: {
    readonly title: string
    readonly condition: string
    readonly severity: 'low'
  }): Promise<{ readonly status: number; readonly id: string | undefined }>
  upload(content: Blob): Promise<{ readonly status: number; readonly sha256: string | undefined }>
  read(id: string): Promise<{ readonly status: number; readonly code: string | undefined }>
}

export const url = process.env['POSTERN_URL'] ?? ''
export const authorization = `ApiKey ${process.env['POSTERN_KEY'] ?? ''}`

function expectEqual(what: string, found: unknown, wanted: unknown): void {
  if (found === wanted) return
  throw new Error(`${what}: found ${JSON.stringify(found)}, wanted ${JSON.stringify(wanted)}`)
}

/** Lists, pages, creates, uploads and reads a problem. Throws if a result is wrong. */
export async function runSteps(client: GeneratedClient): Promise<void> {
  const first = await client.list({ limit: 2 })
  expectEqual('status of the list', first.status, 200)
  expectEqual('items of the first page', first.items.length, 2)
  const next = /<([^>]+)>; rel="next"/.exec(first.link ?? '')?.[1]
  const cursor = new URL(next ?? '', url).searchParams.get('cursor')
  if (cursor === null) throw new Error(`no next page in ${String(first.link)}`)
  const second = await client.list({ limit: 2, cursor })
  expectEqual('items of the second page', second.items.length, 2)
  expectEqual('the same items', JSON.stringify(first.items) === JSON.stringify(second.items), false)

  const made = await client.create({ title: 'Made by a generated client', condition: 'Seen.', severity: 'low' })
  expectEqual('status of the new finding', made.status, 201)
  expectEqual('id of the new finding', typeof made.id, 'string')

  if (process.env['POSTERN_UPLOADS'] !== 'none') await tryUpload(client)

  const problem = await client.read('nothing')
  expectEqual('status of an unknown id', problem.status, 404)
  expectEqual('code of the problem', problem.code, 'not_found')
}

async function tryUpload(client: GeneratedClient): Promise<void> {
  const bytes = randomBytes(100_000)
  const receipt = await client.upload(new Blob([new Uint8Array(bytes)]))
  expectEqual('status of the upload', receipt.status, 201)
  expectEqual('sha256 of the upload', receipt.sha256, createHash('sha256').update(bytes).digest('hex'))
}
