// Keeps FILE (findings.json by default) equal to the findings of the tenant. Later runs read only what has changed.

import { readFile, rename, writeFile } from 'node:fs/promises'

const file = process.argv[2] ?? 'findings.json'
const base = process.env.POSTERN_URL
const headers = { authorization: `ApiKey ${process.env.POSTERN_KEY}` }

/** Throws the problem document's text, except for the `expected` statuses. */
async function get(target, expected = []) {
  const response = await fetch(new URL(target, base), { headers, signal: AbortSignal.timeout(60_000) })
  if (response.ok || expected.includes(response.status)) return response
  const { title, detail = '', instance } = await response.json()
  throw new Error(`${title}. ${detail} (request ${instance})`)
}

function nextOf(response) {
  return /<([^>]+)>;\s*rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
}

function markOf(response) {
  return response.headers.get('postern-next-since')
}

/** The mark is taken first, so that no change is missed. */
async function readAll() {
  const mark = markOf(await get('/api/v1/changes?since=now'))
  const findings = {}
  for (let target = '/api/v1/findings?limit=1000'; target !== undefined;) {
    const page = await get(target)
    for (const finding of await page.json()) findings[finding.id] = finding
    target = nextOf(page)
  }
  return { mark, findings }
}

/** Resolves with undefined if the mark is too old. */
async function catchUp({ mark, findings }) {
  for (let target = `/api/v1/changes?since=${mark}`; target !== undefined;) {
    const page = await get(target, [410])
    if (page.status === 410) return undefined
    const changes = await page.json()
    for (const id of new Set(changes.filter(({ kind }) => kind === 'finding').map((change) => change.id))) {
      const finding = await get(`/api/v1/findings/${id}`, [404])
      if (finding.status === 404) delete findings[id]
      else findings[id] = await finding.json()
    }
    mark = markOf(page)
    target = nextOf(page)
  }
  return { mark, findings }
}

async function readMirror() {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}

const known = await readMirror()
const mirror = (known && (await catchUp(known))) ?? (await readAll())
// Renamed when complete, so that an interrupted run changes nothing.
await writeFile(`${file}.new`, JSON.stringify(mirror))
await rename(`${file}.new`, file)
process.stdout.write(`${Object.keys(mirror.findings).length} findings in ${file}\n`)
