import {
  type BulkPreview,
  type BulkReceipt,
  bulkPreviewSchema,
  bulkReceiptSchema,
  healthReasons,
  keyStates,
} from '@postern/contracts'
import { parseEnd } from '../expiry.ts'
import { assertWords, usageError } from '../cli-error.ts'
import { type OwnerOptions, parseOwner } from '../owner.ts'
import { type CommandContext, type OutputOptions, parseAnswer, printJson, withKeysService } from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { keysPath as path } from './find-key.ts'
import { formatEnforcement } from './format-key.ts'
import { findTenant } from './tenants.ts'

const bulkActions = ['revoke', 'shorten', 'reassign', 'relabel'] as const

interface BulkOptions extends OutputOptions, OwnerOptions {
  readonly tenant: string
  readonly id?: readonly string[]
  readonly ownedBy?: string
  readonly labelContains?: string
  readonly state?: readonly string[]
  readonly health?: readonly string[]
  readonly unusedSince?: string
  readonly reason?: string
  readonly expires?: string
  readonly label?: string
  readonly apply?: string
}

export async function changeKeys(context: CommandContext, action: string, options: BulkOptions): Promise<void> {
  assertWords('the action', [action], bulkActions)
  const selection = parseSelection(options)
  const change = parseBulkChange(action, options)
  const result = await withKeysService(context.env, async (service) => {
    const { id: tenantId } = await findTenant(service, options.tenant)
    const target = `${path}/bulk/preview`
    const { body: shown } = await service.call({ method: 'POST', target, tenantId, body: selection })
    const preview = parseAnswer(bulkPreviewSchema, shown)
    if (options.apply === undefined || preview.keys.length === 0) return { preview }
    const { body } = await service.call({
      method: 'POST',
      target: `${path}/bulk`,
      tenantId,
      body: { ...change, ids: preview.keys.map(({ id }) => id), version: options.apply },
      noResponseAdvice: 'The keys may be changed. Repeat the command with the ids of the preview as --id; that is safe',
    })
    return { receipt: parseAnswer(bulkReceiptSchema, body) }
  })
  if (options.json) printJson(context, result.receipt ?? result.preview)
  else context.print(result.receipt === undefined ? formatPreview(result.preview) : formatReceipt(result.receipt))
}

function parseSelection(options: BulkOptions): object {
  const { id, ownedBy, labelContains, state, health, unusedSince } = options
  if (state !== undefined) assertWords('--state', state, keyStates)
  if (health !== undefined) assertWords('--health', health, healthReasons)
  const filter = {
    ...(state === undefined ? {} : { state }),
    ...(ownedBy === undefined ? {} : { owner: ownedBy }),
    ...(labelContains === undefined ? {} : { label: labelContains }),
    ...(health === undefined ? {} : { health }),
    ...(unusedSince === undefined ? {} : { unused_since: parseEnd(unusedSince, '--unused-since') }),
  }
  const hasFilter = Object.keys(filter).length > 0
  if ((id !== undefined) === hasFilter) {
    throw usageError('select keys with --id, or with --owned-by, --label-contains, --state, --health or --unused-since')
  }
  return id === undefined ? { filter } : { ids: id }
}

function parseBulkChange(action: string, options: BulkOptions): object {
  const owner = parseOwner(options)
  const given = {
    ...(options.reason === undefined ? {} : { reason: options.reason }),
    ...(options.expires === undefined ? {} : { expires_at: parseEnd(options.expires) }),
    ...(owner === undefined ? {} : { owner }),
    ...(options.label === undefined ? {} : { label: options.label }),
  }
  const wanted = new Map([
    ['shorten', 'expires_at'],
    ['reassign', 'owner'],
    ['relabel', 'label'],
  ]).get(action)
  const fields = Object.keys(given)
  const isWhole = wanted === undefined ? fields.every((field) => field === 'reason') : fields.join(' ') === wanted
  if (!isWhole)
    throw usageError('give revoke a --reason or nothing, shorten --expires, reassign --owner, relabel --label')
  return { action, ...given }
}

function formatPreview({ version, keys, active, used_last_day: used }: BulkPreview): string {
  if (keys.length === 0) return 'No key is selected.'
  const rows = keys.map((key) => [
    key.id,
    key.label,
    key.masked,
    key.state,
    key.owner?.name ?? '-',
    moment(key.last_used_at),
    key.recent_addresses.join(' ') || '-',
  ])
  const head = ['ID', 'LABEL', 'KEY', 'STATE', 'OWNER', 'LAST USED', 'USED IN THE LAST 24 HOURS FROM']
  const counts = `${keys.length} keys, ${active} active, ${used} used in the last 24 hours. Nothing is changed yet.`
  return `${formatTable(head, rows)}\n\n${counts}\nTo change them, repeat the command with --apply ${version}`
}

function formatReceipt({ id, changed, keys, enforcement }: BulkReceipt): string {
  const rows = keys.map((key) => [
    key.id,
    key.label,
    key.masked,
    key.state,
    key.changed ? 'changed' : 'unchanged',
    key.enforced_at ?? '-',
  ])
  const table = formatTable(['ID', 'LABEL', 'KEY', 'STATE', 'RESULT', 'ENFORCED'], rows)
  return `${table}\n\nReceipt ${id}: ${changed} of ${keys.length} keys changed${formatEnforcement(enforcement)}`
}
