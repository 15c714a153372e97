import { type AuditEvent, auditEventSchema, listAuditEventsQuery } from '@postern/contracts'
import { setTimeout as wait } from 'node:timers/promises'
import { exitCodes } from '../exit-code.ts'
import { parseStart } from '../expiry.ts'
import { CliError, usageError } from '../cli-error.ts'
import type { OperatorService } from '../operator-service.ts'
import { printableJson } from '../printable.ts'
import {
  type CommandContext,
  type OutputOptions,
  listAll,
  parseAnswer,
  printJson,
  withKeysService,
} from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { findTenant } from './tenants.ts'

const path = '/api/v1/audit-events'
const pageSize = 1000
const pollMs = 2_000

interface AuditOptions extends OutputOptions {
  readonly tenant: string
  readonly category?: readonly string[]
  readonly action?: string
  readonly actor?: string
  readonly resource?: string
  readonly outcome?: string
}

export async function listAudit(
  context: CommandContext,
  options: AuditOptions & { readonly since?: string; readonly until?: string; readonly limit?: number },
): Promise<void> {
  const query = queryOf(options)
  for (const name of ['since', 'until'] as const) {
    const given = options[name]
    if (given !== undefined) query.set(name, parseStart(given, `--${name}`))
  }
  const events = await withKeysService(context.env, async (service) => {
    const { id: tenantId } = await findTenant(service, options.tenant)
    const schema = auditEventSchema.array()
    return await listAll(service, { tenantId }, { path, query, schema, limit: options.limit ?? 100 })
  })
  if (options.json) {
    printJson(context, events)
    return
  }
  const rows = events.map((event) => [
    moment(event.timestamp),
    event.action,
    event.outcome,
    event.actor_name ?? event.actor_id ?? event.actor_type,
    event.resource_name ?? event.resource_id ?? '-',
    event.source_ip ?? '-',
    event.reason ?? '-',
  ])
  context.print(formatTable(['TIME', 'ACTION', 'OUTCOME', 'ACTOR', 'RESOURCE', 'ADDRESS', 'REASON'], rows))
}

/** Prints the events, oldest first, one JSON document a line. With `follow`, until SIGINT or SIGTERM. */
export async function tailAudit(
  context: CommandContext,
  options: AuditOptions & { readonly since?: string; readonly follow?: true },
): Promise<void> {
  if (!listAuditEventsQuery.shape.after.safeParse(options.since).success) {
    throw usageError('--since must be the `position` of an event')
  }
  const stop = new AbortController()
  const end = (): void => stop.abort()
  if (options.follow) for (const signal of stopSignals) process.once(signal, end)
  try {
    await withKeysService(context.env, async (service) => {
      const { id: tenantId } = await findTenant(service, options.tenant)
      let after = options.since
      let isUnavailable = false
      while (!stop.signal.aborted) {
        try {
          const events = await readPage(service, tenantId, options, after)
          isUnavailable = false
          for (const event of events) context.print(printableJson(JSON.stringify(event)))
          after = events.at(-1)?.position ?? after
          if (events.length === pageSize) continue
        } catch (error) {
          if (!options.follow || !(error instanceof CliError) || error.exitCode !== exitCodes.unavailable) throw error
          if (!isUnavailable) context.note?.(`postern: ${error.message}. Trying again`)
          isUnavailable = true
        }
        if (!options.follow) return
        await wait(pollMs, undefined, { signal: stop.signal }).catch(() => undefined)
      }
    })
  } finally {
    for (const signal of stopSignals) process.removeListener(signal, end)
  }
}

const stopSignals = ['SIGINT', 'SIGTERM'] as const

async function readPage(
  service: OperatorService,
  tenantId: string,
  options: AuditOptions,
  after: string | undefined,
): Promise<readonly AuditEvent[]> {
  const query = queryOf(options)
  query.set('order', 'oldest')
  query.set('limit', String(pageSize))
  if (after !== undefined) query.set('after', after)
  const { body } = await service.call({ tenantId, method: 'GET', target: `${path}?${query}` })
  return parseAnswer(auditEventSchema.array(), body)
}

function queryOf({ category, action, actor, resource, outcome }: AuditOptions): URLSearchParams {
  const query = new URLSearchParams()
  if (category !== undefined) query.set('category', category.join(','))
  for (const [name, value] of Object.entries({ action, actor, resource, outcome })) {
    if (value !== undefined) query.set(name, value)
  }
  return query
}
