import { z } from 'zod'

export const healthReasons = [
  'owner_left',
  'rotated_in_use',
  'expiring',
  'outside_policy',
  'never_used',
  'idle',
  'refused_often',
  'rotation_due',
  'unneeded_scopes',
  'wildcard',
  'no_address_limit',
] as const
export type HealthReason = (typeof healthReasons)[number]

const descriptions: Readonly<Record<HealthReason, string>> = {
  owner_left: 'a directory deactivated the owner',
  rotated_in_use: 'the key was replaced and is still used',
  expiring: 'expires within 30 days and has no replacement',
  outside_policy: 'does not comply with the key policy',
  never_used: 'not used since its creation more than a day ago',
  idle: 'not used for 90 days',
  rotation_due: 'older than `rotation_days` of the key policy and has no replacement',
  refused_often: 'at least 50 requests in the last seven days, and one of ten, were refused',
  unneeded_scopes: 'has scopes that it did not need in 30 days',
  wildcard: 'has a scope with a wildcard',
  no_address_limit: 'can be used from any address',
}

/** What each reason means, as Markdown. */
export const healthReasonList: string = healthReasons
  .map((reason) => `\`${reason}\`: ${descriptions[reason]}`)
  .join('; ')

export const keyHealthSchema = z
  .object({
    reasons: z
      .array(
        z.object({
          reason: z.enum(healthReasons),
          keys: z
            .int()
            .min(0)
            .meta({ description: 'The number of active keys with this reason', examples: [12] }),
        }),
      )
      .meta({ description: `Every reason, most urgent first. ${healthReasonList}` }),
    reviewed: z
      .boolean()
      .meta({ description: 'False while keys are still counted, for example after a policy change' }),
  })
  .meta({ id: 'KeyHealth' })
export type KeyHealth = z.infer<typeof keyHealthSchema>
