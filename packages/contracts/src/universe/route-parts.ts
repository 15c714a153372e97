import { z } from 'zod'
import { resourceAddressSchema, text } from '../common.ts'

export const base = {
  upstream: 'universe',
  tag: 'Audit universe',
  access: { kind: 'scope', scope: 'read:universe' },
} as const
export const addressed = z.strictObject({ id: resourceAddressSchema })
export const search = text(1, 200)
  .optional()
  .meta({ description: 'A part of a text of the resource, case-insensitive' })
