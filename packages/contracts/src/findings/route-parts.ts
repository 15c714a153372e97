import { z } from 'zod'
import { externalIdSchema, line, resourceAddressSchema } from '../common.ts'
import { keyFilter, ownerFilterText, textFilter } from '../page.ts'

export const read = { kind: 'scope', scope: 'read:findings' } as const
export const write = { kind: 'scope', scope: 'write:findings' } as const
export const addressed = z.strictObject({ id: resourceAddressSchema })
export const briefAnswer = 'A caller without `read:findings` gets only id, reference, version and status.'
export const patchTypes = ['application/merge-patch+json', 'application/json'] as const

export const yesOrNo = z.enum(['true', 'false']).optional()
export const search = line(2, 200).optional().meta({ description: 'Consecutive words of a text, case-insensitive' })
export const ownerFilter = textFilter(line(1, 254), ownerFilterText)
export const externalIdFilter = keyFilter(externalIdSchema, 'The one with this external id')
