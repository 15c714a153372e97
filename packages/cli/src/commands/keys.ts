import {
  type ApiKey,
  type ApiKeyEvent,
  type BulkPreview,
  type BulkReceipt,
  type CreatedApiKey,
  apiKeyEventSchema,
  apiKeySchema,
  bulkPreviewSchema,
  bulkReceiptSchema,
  createdApiKeySchema,
  explanationSchema,
  grantableScopes,
  healthReasons,
  keyHealthSchema,
  keyStates,
  keyValuePattern,
  revokedApiKeySchema,
} from '@postern/contracts'
import { parseEnd, parseExpiry } from '../expiry.ts'
import { type OwnerOptions, parseOwner } from '../owner.ts'
import { Failure, notFound, usage } from '../failure.ts'
import { exitCodes } from '../exit-code.ts'
import type { KeysService } from '../keys-service.ts'
import {
  type CommandContext,
  type OutputOptions,
  listAll,
  parseAnswer,
  printJson,
  withKeysService,
} from '../session.ts'
import { moment, sheet, table } from '../table.ts'
import { allTenants, findTenant } from './tenants.ts'

const path = '/api/v1/api-keys'
const uuidPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

export interface KeyOptions extends OutputOptions {
  readonly tenant?: string
}

/** Only this command and `keys rotate` show the value of a key. */
export async function createKey(
  context: CommandContext,
  options: OutputOptions & {
    readonly tenant: string
    readonly label: string
    readonly scope: readonly string[]
    readonly expires: string
    readonly address?: readonly string[]
    readonly note?: string
  } & OwnerOptions,
): Promise<void> {
  const owner = parseOwner(options)
  const expiry = parseExpiry(options.expires)
  assertWords('--scope', options.scope, grantableScopes)
  const created = await withKeysService(context.env, async (service) => {
    const tenant = await findTenant(service, options.tenant)
    const { body } = await service.call({
      method: 'POST',
      target: path,
      tenantId: tenant.id,
      body: {
        label: options.label,
        scopes: options.scope,
        ...expiry,
        ...(options.address === undefined ? {} : { allowed_addresses: options.address }),
        ...(options.note === undefined ? {} : { note: options.note }),
        ...(owner === undefined ? {} : { owner }),
      },
      noResponseAdvice: 'A key may have been created whose value is lost. Find it with `keys list` and revoke it',
    })
    return parseAnswer(createdApiKeySchema, body)
  })
  printCreated(context, created, options)
}

export async function listKeys(
  context: CommandContext,
  options: OutputOptions & {
    readonly tenant: string
    readonly state?: readonly string[]
    readonly scope?: readonly string[]
    readonly label?: string
    readonly owner?: string
    readonly health?: string
    readonly expiresBefore?: string
    readonly unusedSince?: string
    readonly limit?: number
  },
): Promise<void> {
  assertWords('--state', options.state ?? [], keyStates)
  assertWords('--scope', options.scope ?? [], grantableScopes)
  if (options.health !== undefined) assertWords('--health', [options.health], healthReasons)
  const query = new URLSearchParams()
  if (options.state !== undefined) query.set('state', options.state.join(','))
  if (options.scope !== undefined) query.set('scope', options.scope.join(','))
  if (options.label !== undefined) query.set('label', options.label)
  if (options.owner !== undefined) query.set('owner', options.owner)
  if (options.health !== undefined) query.set('health', options.health)
  if (options.expiresBefore !== undefined)
    query.set('expires_before', parseEnd(options.expiresBefore, '--expires-before'))
  if (options.unusedSince !== undefined) query.set('unused_since', parseEnd(options.unusedSince, '--unused-since'))
  const keys = await withKeysService(context.env, async (service) => {
    const tenant = await findTenant(service, options.tenant)
    const limit = options.limit ?? Number.POSITIVE_INFINITY
    return await listAll(service, { tenantId: tenant.id }, { path, query, schema: apiKeySchema.array(), limit })
  })
  if (options.json) {
    printJson(context, keys)
    return
  }
  const rows = keys.map((key) => [
    key.id,
    key.label,
    key.masked,
    key.state,
    key.owner?.name ?? '-',
    key.scopes.join(' '),
    moment(key.expires_at),
    moment(key.last_used_at),
  ])
  context.print(table(['ID', 'LABEL', 'KEY', 'STATE', 'OWNER', 'SCOPES', 'EXPIRES', 'LAST USED'], rows))
}

/** Counts the keys that need a look. */
export async function showHealth(
  context: CommandContext,
  options: OutputOptions & { readonly tenant: string },
): Promise<void> {
  const health = await withKeysService(context.env, async (service) => {
    const tenant = await findTenant(service, options.tenant)
    const { body } = await service.call({ method: 'GET', target: '/api/v1/key-health', tenantId: tenant.id })
    return parseAnswer(keyHealthSchema, body)
  })
  if (options.json) printJson(context, health)
  else
    context.print(
      table(
        ['REASON', 'KEYS'],
        health.reasons.map(({ reason, keys }) => [reason, String(keys)]),
      ),
    )
}

export async function showKey(context: CommandContext, id: string, options: KeyOptions): Promise<void> {
  const { key } = await withKeysService(context.env, async (service) => await findKey(service, id, options.tenant))
  if (options.json) printJson(context, key)
  else context.print(formatKey(key))
}

/** Shows what a gateway would decide about a request, step by step. */
export async function explainRequest(
  context: CommandContext,
  id: string,
  options: KeyOptions & { readonly method: string; readonly path: string; readonly address: string },
): Promise<void> {
  const { method, path: asked, address } = options
  const explained = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const request = { method: method.toUpperCase(), path: asked, address }
    const target = `${path}/${key.id}/explain`
    const { body } = await service.call({ method: 'POST', target, tenantId, body: request })
    return parseAnswer(explanationSchema, body)
  })
  if (options.json) {
    printJson(context, explained)
    return
  }
  const { decision, status, code, steps } = explained
  const outcome = decision === 'accepted' ? 'accepted' : `refused: ${status} ${code}`
  const rows = steps.map(({ step, outcome: result, detail }) => [step, result, detail])
  context.print(`${outcome}\n\n${table(['STEP', 'RESULT', 'DETAIL'], rows)}`)
}

const everyKey = new RegExp(keyValuePattern, 'g')

/** Finds a key by its value on standard input, because shells and process lists keep command lines. */
export async function findKeyByValue(context: CommandContext, source: string, options: KeyOptions): Promise<void> {
  // Never show the argument: it may be a key.
  if (source !== '-')
    throw usage('keys find reads the key from standard input: use `keys find -`, paste the key and press Ctrl-D')
  if (context.readInput === undefined) throw usage('standard input cannot be read')
  const values = new Set((await context.readInput()).match(everyKey))
  const [value] = values
  if (value === undefined || values.size > 1) {
    throw usage(
      value === undefined
        ? 'standard input contains no whole key: a key is postern_ and 49 letters and digits'
        : `standard input contains ${values.size} keys: pass one at a time`,
    )
  }
  const key = await withKeysService(context.env, async (service) => {
    const found = await searchTenants(service, options.tenant, async (tenantId) => {
      const { body } = await service.call({ method: 'POST', target: `${path}/find`, tenantId, body: { key: value } })
      return parseAnswer(apiKeySchema, body)
    })
    return found ?? notFoundIn(options.tenant, 'value')
  })
  if (options.json) printJson(context, key)
  else context.print(formatKey(key))
}

/** Returns when every gateway enforces a narrowing. */
export async function updateKey(
  context: CommandContext,
  id: string,
  options: KeyOptions &
    OwnerOptions & {
      readonly label?: string
      readonly note?: string
      readonly scope?: readonly string[]
      readonly address?: readonly string[]
      readonly expires?: string
    },
): Promise<void> {
  const { label, note, scope, address, expires } = options
  if (scope !== undefined) assertWords('--scope', scope, grantableScopes)
  const owner = parseOwner(options)
  const body = {
    ...(label === undefined ? {} : { label }),
    ...(note === undefined ? {} : { note: note === '' ? null : note }),
    ...(owner === undefined ? {} : { owner }),
    ...(scope === undefined ? {} : { scopes: scope }),
    ...(address === undefined ? {} : { allowed_addresses: address }),
    ...(expires === undefined ? {} : { expires_at: parseEnd(expires) }),
  }
  if (Object.keys(body).length === 0) throw usage('name what to change, such as --label or --owner')
  const key = await withKeysService(context.env, async (service) => {
    const { key: current, tenantId, etag } = await findKey(service, id, options.tenant)
    const { body: changed } = await service.call({
      method: 'PATCH',
      target: `${path}/${current.id}`,
      tenantId,
      ...(etag === undefined ? {} : { ifMatch: etag }),
      body,
      noResponseAdvice: 'The key may be changed. Repeat the command; that is safe',
    })
    return parseAnswer(apiKeySchema, changed)
  })
  if (options.json) printJson(context, key)
  else context.print(formatKey(key))
}

/** Returns when every gateway rejects the key. */
export async function revokeKey(
  context: CommandContext,
  id: string,
  options: KeyOptions & { readonly reason?: string },
): Promise<void> {
  const revoked = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const { body } = await service.call({
      method: 'POST',
      target: `${path}/${key.id}/revoke`,
      tenantId,
      body: options.reason === undefined ? {} : { reason: options.reason },
      noResponseAdvice: 'The key may not be revoked everywhere. Repeat the command; that is safe',
    })
    return parseAnswer(revokedApiKeySchema, body)
  })
  if (options.json) {
    printJson(context, revoked)
    return
  }
  const { enforcement } = revoked
  const proof =
    enforcement === null
      ? ''
      : ` (gateways: ${enforcement.gateways}, confirmed: ${enforcement.confirmed}, fenced: ${enforcement.fenced})`
  context.print(`${revoked.masked} is revoked: every gateway rejects it${proof}`)
}

const bulkActions = ['revoke', 'shorten', 'reassign', 'relabel'] as const

interface BulkOptions extends OutputOptions, OwnerOptions {
  readonly tenant: string
  readonly id?: readonly string[]
  readonly ownedBy?: string
  readonly labelContains?: string
  readonly state?: readonly string[]
  readonly health?: string
  readonly unusedSince?: string
  readonly reason?: string
  readonly expires?: string
  readonly label?: string
  readonly apply?: string
}

/** Previews a change of several keys. Makes it if `--apply` names the preview. */
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
  if (health !== undefined) assertWords('--health', [health], healthReasons)
  const filter = {
    ...(state === undefined ? {} : { state }),
    ...(ownedBy === undefined ? {} : { owner: ownedBy }),
    ...(labelContains === undefined ? {} : { label: labelContains }),
    ...(health === undefined ? {} : { health }),
    ...(unusedSince === undefined ? {} : { unused_since: parseEnd(unusedSince, '--unused-since') }),
  }
  const hasFilter = Object.keys(filter).length > 0
  if ((id !== undefined) === hasFilter) {
    throw usage('select keys with --id, or with --owned-by, --label-contains, --state, --health or --unused-since')
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
  if (!isWhole) throw usage('give revoke a --reason or nothing, shorten --expires, reassign --owner, relabel --label')
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
  return `${table(head, rows)}\n\n${counts}\nTo change them, repeat the command with --apply ${version}`
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
  const proof =
    enforcement === null
      ? ''
      : ` (gateways: ${enforcement.gateways}, confirmed: ${enforcement.confirmed}, fenced: ${enforcement.fenced})`
  const sheetRows = table(['ID', 'LABEL', 'KEY', 'STATE', 'RESULT', 'ENFORCED'], rows)
  return `${sheetRows}\n\nReceipt ${id}: ${changed} of ${keys.length} keys changed${proof}`
}

/** Shows the value of the new key. */
export async function rotateKey(
  context: CommandContext,
  id: string,
  options: KeyOptions & { readonly overlap?: string; readonly expires?: string },
): Promise<void> {
  const { overlap = '24h', expires } = options
  if (!/^(?:0|[1-9][0-9]{0,3})[smhd]$/.test(overlap)) throw usage('--overlap must be 0s to 7d, such as 90m or 24h')
  if (expires !== undefined) assertWords('--expires', [expires], ['30d', '90d', '1y'])
  const created = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const { body } = await service.call({
      method: 'POST',
      target: `${path}/${key.id}/rotate`,
      tenantId,
      body: { overlap, ...(expires === undefined ? {} : { expires_in: expires }) },
      noResponseAdvice: 'A key may have been created whose value is lost. Find it with `keys list` and revoke it',
    })
    return parseAnswer(createdApiKeySchema, body)
  })
  printCreated(context, created, options)
}

export async function listKeyEvents(
  context: CommandContext,
  id: string,
  options: KeyOptions & { readonly limit?: number },
): Promise<void> {
  const events = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const limit = options.limit ?? Number.POSITIVE_INFINITY
    const list = { path: `${path}/${key.id}/events`, query: new URLSearchParams(), schema: apiKeyEventSchema.array() }
    return await listAll(service, { tenantId }, { ...list, limit })
  })
  if (options.json) printJson(context, events)
  else context.print(table(['AT', 'EVENT', 'BY', 'FROM', 'DETAIL'], events.map(rowOf)))
}

const tenantsAtOnce = 8

interface FoundKey {
  readonly key: ApiKey
  readonly tenantId: string
  readonly etag: string | undefined
}

/** A request acts for one tenant, so this may search each tenant. */
async function findKey(service: KeysService, id: string, tenantAddress: string | undefined): Promise<FoundKey> {
  // Never show the value: it may be a key.
  if (!uuidPattern.test(id)) throw usage('the id of a key must be a UUID; `keys list` shows it')
  const found = await searchTenants(service, tenantAddress, async (tenantId) => {
    const { body, etag } = await service.call({ method: 'GET', target: `${path}/${id.toLowerCase()}`, tenantId })
    return { key: parseAnswer(apiKeySchema, body), tenantId, etag }
  })
  return found ?? notFoundIn(tenantAddress, 'id')
}

/** Asks for one tenant, or for all, until an answer is not 404. */
async function searchTenants<T>(
  service: KeysService,
  tenantAddress: string | undefined,
  ask: (tenantId: string) => Promise<T>,
): Promise<T | undefined> {
  const tenants = tenantAddress === undefined ? await allTenants(service) : [await findTenant(service, tenantAddress)]
  for (let start = 0; start < tenants.length; start += tenantsAtOnce) {
    const group = tenants.slice(start, start + tenantsAtOnce)
    const found = await Promise.all(group.map(async ({ id }) => await unlessMissing(ask(id))))
    for (const hit of found) if (hit !== undefined) return hit
  }
  return undefined
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof Failure && error.exitCode === exitCodes.notFound) return undefined
    throw error
  }
}

function notFoundIn(tenantAddress: string | undefined, what: 'id' | 'value'): never {
  throw notFound(
    tenantAddress === undefined ? `no tenant has a key with this ${what}` : `the tenant has no key with this ${what}`,
  )
}

function assertWords(option: string, given: readonly string[], allowed: readonly string[]): void {
  if (given.every((word) => allowed.includes(word))) return
  throw usage(`${option} must be one of ${allowed.join(', ')}`)
}

function printCreated(context: CommandContext, created: CreatedApiKey, { json }: OutputOptions): void {
  if (json) {
    const { id, key, masked, expires_at, ...rest } = created
    printJson(context, { id, key, masked, expires_at, ...rest })
    return
  }
  const { key, ...resource } = created
  context.print(`${key}\n\nStore it now: it is never shown again.\n\n${formatKey(resource)}`)
}

function formatKey(key: ApiKey): string {
  const entries: [string, string][] = [
    ['id', key.id],
    ['label', key.label],
    ['note', key.note ?? '-'],
    ['owner', formatOwner(key.owner)],
    ['key', key.masked],
    ['state', key.state],
    ['scopes', key.scopes.join(' ')],
    ['addresses', key.allowed_addresses.length === 0 ? 'any' : key.allowed_addresses.join(' ')],
    ['created', `${moment(key.created_at)} by ${key.created_by.label}`],
    ['expires', moment(key.expires_at)],
    ['last used', moment(key.last_used_at)],
    ['last refused', moment(key.last_refused_at)],
  ]
  if (key.rotated_from !== null) entries.push(['rotated from', key.rotated_from])
  if (key.revoked_at !== null) {
    entries.push(['revoked', `${moment(key.revoked_at)} by ${key.revoked_by?.label ?? '-'}`])
    entries.push(['reason', key.revoke_reason ?? '-'])
  }
  return sheet(entries)
}

function formatOwner(owner: ApiKey['owner']): string {
  if (owner === null) return '-'
  const left = owner.left_at === null ? '' : `, left ${moment(owner.left_at)}`
  return `${owner.name} (${owner.contact ?? owner.id ?? '-'}${left})`
}

function rowOf({ at, type, actor, address, detail }: ApiKeyEvent): string[] {
  const details = Object.keys(detail).length === 0 ? '' : JSON.stringify(detail)
  return [moment(at), type, actor?.label ?? '-', address ?? '-', details]
}
