import { z } from 'zod'
import { timestampSchema, uuidSchema } from '../common.ts'
import { keyValueSchema } from './key-value.ts'

export const maxLeakedKeys = 100

export const reportLeakedKeysBodySchema = z
  .strictObject({
    keys: z
      .array(keyValueSchema)
      .min(1)
      .max(maxLeakedKeys)
      .meta({
        description: 'The values that were found, complete and unaltered. They are neither stored nor logged.',
        examples: [[`postern_${'0'.repeat(49)}`]],
      }),
  })
  .meta({ id: 'ReportLeakedKeys' })

export const leakReceiptSchema = z
  .object({
    id: uuidSchema.meta({ description: 'The audit trail of each revoked key contains it' }),
    received_at: timestampSchema,
    values: z.int().min(1).meta({ description: 'How many different values the report contained' }),
  })
  .meta({
    id: 'LeakReceipt',
    description:
      'Postern has revoked those of the values that are its keys. The receipt does not say whether there are any, and gateways that cannot be reached may enforce the revocation a few seconds later.',
  })
export type LeakReceipt = z.infer<typeof leakReceiptSchema>
