import { createHash } from 'node:crypto'
import {
  type ApplyImportAnswer,
  type ImportErrors,
  type ImportPlan,
  type ImportRow,
  type RollbackPlan,
  applyImportAnswerSchema,
  beginImportAnswerSchema,
  importChangesAnswerSchema,
  importErrorsAnswerSchema,
  importHashesAnswerSchema,
  internalPaths,
  planImportAnswerSchema,
  rollbackPlanSchema,
} from '@postern/contracts/internal'
import type { CallAnswer } from '@postern/local-stack/testing'
import { expect } from 'vitest'
import type { Principal, UniverseUnderTest } from './service.ts'

export interface Connector {
  readonly tenant: Principal
  readonly id: string
  readonly dataset?: 'auditable_entities' | 'org_structure' | 'people' | 'test_procedures'
  readonly hierarchy?: string
  readonly policy?: 'ignore' | 'flag' | 'deactivate'
  readonly readAt?: string
}

export const newConnector = (tenant: Principal, given: Partial<Connector> = {}): Connector => ({
  tenant,
  id: crypto.randomUUID(),
  ...given,
})

/** A row without content is invalid; one without a key is unreadable. */
export function rowsOf(...contents: readonly object[]): ImportRow[] {
  return contents.map((content, at) => {
    const fields = new Map<string, unknown>(Object.entries(content))
    const key = fields.get('external_id') ?? fields.get('node_key')
    const parent = fields.get('parent_external_id') ?? fields.get('parent_key')
    return {
      row: at + 2,
      content: JSON.stringify(content),
      hash: hashOf(content),
      ...(typeof key === 'string' ? { key } : {}),
      ...(typeof parent === 'string' ? { parent } : {}),
    }
  })
}

export function hashOf(content: object): string {
  return createHash('sha256').update(JSON.stringify(content)).digest().subarray(0, 16).toString('base64')
}

export interface Run {
  readonly id: string
  readonly attempt: number
}

/** Ids grow with time (UUIDv7). */
function newRun(): Run {
  const time = Date.now().toString(16).padStart(12, '0')
  return { id: `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`, attempt: 1 }
}

const about = ({ dataset = 'auditable_entities', hierarchy }: Connector) => ({
  dataset,
  ...(hierarchy === undefined ? {} : { hierarchy }),
})

const held = ({ id, attempt }: Run) => ({ run_id: id, attempt })

export function importsOf(universe: UniverseUnderTest) {
  const call = async (connector: Connector, path: string, body: object): Promise<CallAnswer> =>
    await universe.sync.call(
      { tenantId: connector.tenant.tenantId, kind: 'service', id: connector.id, label: 'A connector', scopes: [] },
      'POST',
      path,
      { body },
    )
  const ask = async (connector: Connector, path: string, body: object): Promise<unknown> => {
    const answer = await call(connector, path, body)
    expect(answer.status, answer.text).toBe(200)
    return answer.json
  }

  /** Starts a run. Returns it with the hashes of the connector's rows. */
  async function begin(connector: Connector, run = newRun()) {
    const body = { ...held(run), ...about(connector), read_at: connector.readAt ?? new Date().toISOString() }
    const { known } = beginImportAnswerSchema.parse(await ask(connector, internalPaths.beginImport, body))
    const page = await ask(connector, internalPaths.importHashes, { ...held(run), after: '' })
    const hashes = Buffer.from(importHashesAnswerSchema.parse(page).hashes, 'base64')
    const list = Array.from({ length: hashes.length / 16 }, (_none, at) =>
      hashes.subarray(at * 16, at * 16 + 16).toString('base64'),
    )
    return { run, known, hashes: new Set(list) }
  }

  /** Stages and compares rows. Reads the source again if the universe asks for it. */
  async function plan(
    connector: Connector,
    rows: readonly ImportRow[],
    begun?: Awaited<ReturnType<typeof begin>>,
  ): Promise<{ readonly run: Run; readonly plan: ImportPlan; readonly sent: number; readonly isReadAgain: boolean }> {
    const { run, hashes } = begun ?? (await begin(connector))
    const left = new Set(hashes)
    const sent = rows.filter(({ hash }) => hash === undefined || !left.delete(hash))
    const gone = Buffer.concat([...left].map((hash) => Buffer.from(hash, 'base64'))).toString('base64')
    await ask(connector, internalPaths.importRows, { ...held(run), rows: sent, gone })
    const planned = await compare(connector, run, hashes.size)
    if (planned !== undefined) return { run, plan: planned, sent: sent.length, isReadAgain: false }
    await begin(connector, run)
    await ask(connector, internalPaths.importRows, { ...held(run), rows })
    const again = await compare(connector, run, null)
    if (again === undefined) throw new Error('a source that was sent as a whole is not read again')
    return { run, plan: again, sent: rows.length, isReadAgain: true }
  }

  async function compare(connector: Connector, run: Run, hashes: number | null): Promise<ImportPlan | undefined> {
    const { policy = 'flag' } = connector
    for (let after = 0; ;) {
      const body = { ...held(run), after, hashes, missing_policy: policy }
      const answer = planImportAnswerSchema.parse(await ask(connector, internalPaths.planImport, body))
      if (answer.state === 'read_again') return undefined
      if (answer.state === 'planned') return answer
      after = answer.after
    }
  }

  async function apply(connector: Connector, run: Run, diffHash: string): Promise<ApplyImportAnswer> {
    const hierarchy =
      connector.hierarchy === undefined
        ? {}
        : { hierarchy: { key: connector.hierarchy, name: 'Legal entities', kind: 'legal_entity' } }
    for (;;) {
      const body = { ...held(run), diff_hash: diffHash, ...hierarchy }
      const answer = applyImportAnswerSchema.parse(await ask(connector, internalPaths.applyImport, body))
      if (answer.done || answer.refused !== null) return answer
    }
  }

  async function carryOut(connector: Connector, ...contents: readonly object[]) {
    const planned = await plan(connector, rowsOf(...contents))
    return { ...planned, applied: await apply(connector, planned.run, planned.plan.diff_hash) }
  }

  async function undo(
    connector: Connector,
    { id }: Run,
  ): Promise<RollbackPlan & { readonly run: Run; applied: number }> {
    const run = newRun()
    const body = { ...held(run), ...about(connector), read_at: new Date().toISOString(), rollback_of: id }
    const planned = rollbackPlanSchema.parse(await ask(connector, internalPaths.planRollback, body))
    const { applied } = await apply(connector, run, planned.diff_hash)
    return { ...planned, run, applied }
  }

  async function changes(connector: Connector, { id }: Run) {
    const body = { run_id: id, after: 0, limit: 1000, ops: null, count: true }
    return importChangesAnswerSchema.parse(await ask(connector, internalPaths.importChanges, body)).changes
  }

  async function errors(connector: Connector, { id }: Run, applying: boolean): Promise<ImportErrors> {
    const body = { run_id: id, after: 0, applying }
    return importErrorsAnswerSchema.parse(await ask(connector, internalPaths.importErrors, body)).errors
  }

  return { call, begin, plan, apply, carryOut, undo, changes, errors, held }
}
