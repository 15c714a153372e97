import { z } from 'zod'
import { line, momentSchema, resourceAddressSchema } from '../common.ts'

/** What the routes of the findings service have in common. */
export const read = { kind: 'scope', scope: 'read:findings' } as const
export const write = { kind: 'scope', scope: 'write:findings' } as const
export const addressed = z.strictObject({ id: resourceAddressSchema })
export const briefAnswer = 'A caller without `read:findings` is answered with id, reference, version and status alone.'
export const patchTypes = ['application/merge-patch+json', 'application/json'] as const

export const since = momentSchema.optional()
export const yesOrNo = z.enum(['true', 'false']).optional()
export const search = line(2, 200).optional().meta({ description: 'Words that stand together in a text, in any case' })
export const ownerFilter = line(1, 254).optional().meta({ description: 'Id, e-mail address or name of a person' })
