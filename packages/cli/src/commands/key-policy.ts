import { type KeyPolicy, keyPolicySchema } from '@postern/contracts'
import { usageError } from '../cli-error.ts'
import { type CommandContext, type OutputOptions, parseAnswer, printJson, withKeysService } from '../session.ts'
import { formatSheet } from '../table.ts'
import { findTenant } from './tenants.ts'

const target = '/api/v1/key-policy'

export async function keyPolicy(
  context: CommandContext,
  options: OutputOptions & {
    readonly tenant: string
    readonly maxDays?: number
    readonly rotationDays?: number
    readonly revokeIdleDays?: string
    readonly auditRetentionDays?: number
  },
): Promise<void> {
  const { maxDays, rotationDays, revokeIdleDays, auditRetentionDays } = options
  const rules = {
    ...(maxDays === undefined ? {} : { max_key_days: maxDays }),
    ...(rotationDays === undefined ? {} : { rotation_days: rotationDays }),
    ...(revokeIdleDays === undefined ? {} : { revoke_idle_days: parseDays(revokeIdleDays) }),
    ...(auditRetentionDays === undefined ? {} : { audit_retention_days: auditRetentionDays }),
  }
  const policy = await withKeysService(context.env, async (service) => {
    const { id: tenantId } = await findTenant(service, options.tenant)
    const { body, etag } = await service.call({ method: 'GET', target, tenantId })
    if (Object.keys(rules).length === 0) return parseAnswer(keyPolicySchema, body)
    const ifMatch = etag === undefined ? {} : { ifMatch: etag }
    const changed = await service.call({ method: 'PATCH', target, tenantId, body: rules, ...ifMatch })
    return parseAnswer(keyPolicySchema, changed.body)
  })
  if (options.json) printJson(context, policy)
  else context.print(formatPolicy(policy))
}

function parseDays(text: string): number | null {
  if (text === 'never') return null
  if (!/^[1-9]\d{0,3}$/.test(text)) throw usageError('--revoke-idle-days must be a number of days from 2, or never')
  return Number(text)
}

function formatPolicy(policy: KeyPolicy): string {
  const { required_addresses: networks, most_keys: most, revoke_idle_days: idle } = policy
  return formatSheet([
    ['longest life', `${policy.max_key_days} days`],
    ['rotation age', `${policy.rotation_days} days`],
    ['idle keys', idle === null ? 'not revoked' : `revoked after ${idle} days`],
    ['networks', networks.length === 0 ? 'any' : networks.join(' ')],
    ['wildcards', policy.forbid_wildcards ? 'forbidden' : 'allowed'],
    ['owner', policy.require_owner ? 'required' : 'optional'],
    ['active keys', most === null ? 'any number' : `at most ${most}`],
    ['audit events', `kept for ${policy.audit_retention_days} days`],
  ])
}
