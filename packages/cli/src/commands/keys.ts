import {
  type ApiKeyEvent,
  type CreatedApiKey,
  apiKeyEventSchema,
  apiKeySchema,
  createdApiKeySchema,
  grantableScopes,
  healthReasons,
  keyHealthSchema,
  keyStates,
  revokedApiKeySchema,
} from '@postern/contracts'
import { parseEnd, parseExpiry } from '../expiry.ts'
import { type OwnerOptions, parseOwner } from '../owner.ts'
import { assertWords, usageError } from '../cli-error.ts'
import {
  type CommandContext,
  type OutputOptions,
  listAll,
  parseAnswer,
  printJson,
  withKeysService,
} from '../session.ts'
import { moment, formatTable } from '../table.ts'
import { type KeyOptions, findKey, keysPath as path } from './find-key.ts'
import { formatEnforcement, formatKey } from './format-key.ts'
import { findRotation, formatRotation } from './key-rotation.ts'
import { findTenant } from './tenants.ts'

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
    readonly health?: readonly string[]
    readonly expiresBefore?: string
    readonly unusedSince?: string
    readonly limit?: number
  },
): Promise<void> {
  assertWords('--state', options.state ?? [], keyStates)
  assertWords('--scope', options.scope ?? [], grantableScopes)
  assertWords('--health', options.health ?? [], healthReasons)
  const query = new URLSearchParams()
  if (options.state !== undefined) query.set('state', options.state.join(','))
  if (options.scope !== undefined) query.set('scope', options.scope.join(','))
  if (options.label !== undefined) query.set('label', options.label)
  if (options.owner !== undefined) query.set('owner', options.owner)
  if (options.health !== undefined) query.set('health', options.health.join(','))
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
  context.print(formatTable(['ID', 'LABEL', 'KEY', 'STATE', 'OWNER', 'SCOPES', 'EXPIRES', 'LAST USED'], rows))
}

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
      formatTable(
        ['REASON', 'KEYS'],
        health.reasons.map(({ reason, keys }) => [reason, String(keys)]),
      ),
    )
}

export async function showKey(context: CommandContext, id: string, options: KeyOptions): Promise<void> {
  const { key, rotation } = await withKeysService(context.env, async (service) => {
    const found = await findKey(service, id, options.tenant)
    return { ...found, rotation: options.json === true ? undefined : await findRotation(service, found) }
  })
  if (options.json) printJson(context, key)
  else context.print([formatKey(key), ...(rotation === undefined ? [] : [formatRotation(rotation)])].join('\n\n'))
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
  if (Object.keys(body).length === 0) throw usageError('name what to change, such as --label or --owner')
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
  context.print(`${revoked.masked} is revoked: every gateway rejects it${formatEnforcement(revoked.enforcement)}`)
}

export async function rotateKey(
  context: CommandContext,
  id: string,
  options: KeyOptions & {
    readonly overlap?: string
    readonly overlapFrom?: string
    readonly expires?: string
    readonly scope?: readonly string[]
  },
): Promise<void> {
  const { overlap = '24h', overlapFrom = 'rotation', expires, scope } = options
  if (!/^(?:0|[1-9][0-9]{0,3})[smhd]$/.test(overlap)) throw usageError('--overlap must be 0s to 7d, such as 90m or 24h')
  assertWords('--overlap-from', [overlapFrom], ['rotation', 'first_use'])
  if (expires !== undefined) assertWords('--expires', [expires], ['30d', '90d', '1y'])
  if (scope !== undefined) assertWords('--scope', scope, grantableScopes)
  const created = await withKeysService(context.env, async (service) => {
    const { key, tenantId } = await findKey(service, id, options.tenant)
    const { body } = await service.call({
      method: 'POST',
      target: `${path}/${key.id}/rotate`,
      tenantId,
      body: {
        overlap,
        overlap_from: overlapFrom,
        ...(expires === undefined ? {} : { expires_in: expires }),
        ...(scope === undefined ? {} : { scopes: scope }),
      },
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
  else context.print(formatTable(['AT', 'EVENT', 'BY', 'FROM', 'DETAIL'], events.map(rowOf)))
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

function rowOf({ at, type, actor, address, detail }: ApiKeyEvent): string[] {
  const details = Object.keys(detail).length === 0 ? '' : JSON.stringify(detail)
  return [moment(at), type, actor?.label ?? '-', address ?? '-', details]
}
