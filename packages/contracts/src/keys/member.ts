import { z } from 'zod'
import { timestampSchema } from '../common.ts'
import { roles } from '../scope.ts'

export const memberSchema = z
  .object({
    id: z.string().meta({ description: 'The id of the person at the identity provider', examples: ['amara.osei'] }),
    name: z.string(),
    roles: z.array(z.enum(roles)).meta({ description: 'The roles in the last request' }),
    first_seen_at: timestampSchema,
    last_seen_at: timestampSchema.meta({ description: 'Accurate to one minute' }),
    left_at: timestampSchema.nullable().meta({
      description: 'When a directory deactivated the person; null if none did',
    }),
  })
  .meta({ id: 'Member' })
export type Member = z.infer<typeof memberSchema>
