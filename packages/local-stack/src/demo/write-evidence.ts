import { randomUUID } from 'node:crypto'
import type { EvidenceRef } from '@postern/contracts'
import type { TenantDb } from '@postern/tenant-db'
import type { CallAnswer, Principal, SignedCaller } from '../signed-caller.ts'
import { type DemoFile, bytesOf } from './evidence.ts'

export interface EvidenceWriter {
  readonly service: SignedCaller
  readonly principal: Principal
  readonly db: TenantDb
  readonly assertion: () => string
}

const lanes = 4

/** In order; files that exist are not uploaded again. */
export async function writeEvidence(files: readonly DemoFile[], writer: EvidenceWriter): Promise<EvidenceRef[]> {
  const before = await listFiles(writer)
  const missing = files.filter(({ fileName }) => !before.has(fileName))
  const originals = missing.filter(({ revises }) => revises === null)
  await runConcurrently([...Map.groupBy(originals, ({ collection }) => collection).values()], async (together) => {
    await sendForm(together, writer)
  })
  const present = originals.length === 0 ? before : await listFiles(writer)
  await runConcurrently(
    missing.filter(({ revises }) => revises !== null),
    async (file) => await sendRevision(file, present.get(file.revises ?? '')?.evidence_id ?? '', writer),
  )
  const all = missing.length === 0 ? before : await listFiles(writer)
  return files.flatMap(({ fileName }) => all.get(fileName) ?? [])
}

async function runConcurrently<T>(work: readonly T[], carryOut: (item: T) => Promise<void>): Promise<void> {
  const queue = work.values()
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      for (const item of queue) await carryOut(item)
    }),
  )
}

/** RFC 7578: metadata, then files. */
async function sendForm(files: readonly DemoFile[], { service, principal }: EvidenceWriter): Promise<void> {
  const [first] = files
  if (first === undefined) return
  const boundary = `demo-${randomUUID()}`
  const part = (head: string, content: Buffer): Buffer[] => [
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; ${head}\r\n\r\n`),
    content,
    Buffer.from('\r\n'),
  ]
  const metadata = {
    evidence_date: first.evidenceDate,
    source_system: first.sourceSystem,
    collection_method: first.method,
    test_procedures: first.testProcedures.map((name) => `ext:${name}`),
  }
  const body = Buffer.concat([
    ...part('name="metadata"\r\ncontent-type: application/json', Buffer.from(JSON.stringify(metadata))),
    ...files.flatMap((file) =>
      part(`name="file"; filename="${file.fileName}"\r\ncontent-type: ${file.contentType}`, bytesOf(file)),
    ),
    Buffer.from(`--${boundary}--\r\n`),
  ])
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` }
  expectReceipt(await service.call(principal, 'POST', '/api/v1/evidence', { body, headers }), first)
}

async function sendRevision(file: DemoFile, revised: string, { service, principal }: EvidenceWriter): Promise<void> {
  const query = new URLSearchParams({ file_name: file.fileName, evidence_date: file.evidenceDate })
  for (const name of file.testProcedures) query.append('test_procedure', `ext:${name}`)
  const target = `/api/v1/evidence/${revised}/revisions?${query}`
  const headers = { 'content-type': file.contentType }
  expectReceipt(await service.call(principal, 'POST', target, { body: bytesOf(file), headers }), file)
}

function expectReceipt({ status, text }: CallAnswer, { fileName }: DemoFile): void {
  if (status !== 201) throw new Error(`could not upload ${fileName}: the answer was ${status} ${text.slice(0, 500)}`)
}

async function listFiles({ db, assertion }: EvidenceWriter): Promise<Map<string, EvidenceRef>> {
  const rows = await db.read({ assertion: assertion() }, async (tx) =>
    tx.query<{ file_name: string; id: string; sha256: string; size_bytes: string }>({
      text: 'select f.file_name, f.id, f.sha256, f.size_bytes from evidence.file f order by f.id',
      values: [],
    }),
  )
  return new Map(
    rows.map(({ file_name, id, sha256, size_bytes }) => [
      file_name,
      { evidence_id: id, sha256, size: Number(size_bytes) },
    ]),
  )
}
