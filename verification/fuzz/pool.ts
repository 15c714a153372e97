export type Kind = 'id' | 'ref' | 'etag' | 'cursor' | 'foreign'

/** Replaced when the request is sent, so that requests can be generated before resources exist. */
export function marker(kind: Kind, collection: string, at: number): string {
  return `__${kind}.${collection}.${at}__`
}

const markers = /__([a-z]+)\.([A-Za-z-]+)\.([0-9]+)__/g
const maxEach = 40
const maxAll = 500

export interface Pool {
  add(kind: Kind, collection: string, value: string): void
  /** Replaces markers; one without a resource becomes an unknown id. */
  fill(text: string): string
  all(): readonly { readonly kind: Kind; readonly collection: string; readonly value: string }[]
}

export function createPool(): Pool {
  const known = new Map<string, string[]>()
  const entries: { readonly kind: Kind; readonly collection: string; readonly value: string }[] = []
  const listOf = (name: string): string[] => {
    const list = known.get(name) ?? []
    known.set(name, list)
    return list
  }
  return {
    all: () => entries,
    add: (kind, collection, value) => {
      if (entries.length < maxAll) entries.push({ kind, collection, value })
      for (const name of [`${kind}.${collection}`, `${kind}.any`]) {
        const list = listOf(name)
        if (!list.includes(value)) list.push(value)
        // A seed depends on the oldest entries.
        if (list.length > maxEach) list.splice(maxEach / 2, 1)
      }
    },
    fill: (text) =>
      text.replaceAll(markers, (_marker, kind: string, collection: string, at: string) => {
        const list = listOf(`${kind}.${collection}`)
        return list[Number(at) % Math.max(list.length, 1)] ?? '019a9c1e-7d3b-7cc2-9a55-0d7d2c9be0ff'
      }),
  }
}

export function harvest(
  pool: Pool,
  path: string,
  answer: { readonly headers: Readonly<Record<string, string | string[] | undefined>>; readonly json: unknown },
): void {
  const parts = path.split('?', 1)[0]?.split('/') ?? []
  // /api/v1/findings/{id}/action-plans contains action plans.
  const [collection = 'any'] = parts.toReversed().filter((part) => /^[A-Za-z][A-Za-z-]+$/.test(part) && !isVerb(part))
  const listed = listIn(answer.json)
  const items = Array.isArray(listed) ? listed.slice(0, 5) : [listed]
  for (const item of items) {
    if (typeof item !== 'object' || item === null) continue
    const { id, reference } = { id: undefined, reference: undefined, ...item }
    if (typeof id === 'string' && /^[0-9a-f-]{36}$/.test(id)) pool.add('id', collection, id)
    if (typeof reference === 'string') pool.add('ref', collection, reference)
  }
  const { etag, link, location } = answer.headers
  if (typeof etag === 'string') pool.add('etag', collection, etag)
  const cursor = /[?&](?:cursor|since)=([^&>]+)/.exec(String(link ?? ''))?.[1]
  if (cursor !== undefined) pool.add('cursor', collection, cursor)
  const made = /\/([A-Za-z-]+)\/([0-9a-f-]{36})$/.exec(String(location ?? ''))
  if (made !== null) pool.add('id', made[1] ?? 'any', made[2] ?? '')
}

function listIn(json: unknown): unknown {
  return typeof json === 'object' && json !== null && 'Resources' in json ? json.Resources : json
}

function isVerb(part: string): boolean {
  return [
    'status',
    'extensions',
    'revoke',
    'rotate',
    'transitions',
    'verify',
    'summary',
    'attachments',
    'revisions',
    'bulk',
  ].includes(part)
}
