import { z } from 'zod'
import { timestampSchema } from '../common.ts'
import { roles } from '../scope.ts'

/** A person of the tenant who has signed in. Name and roles are the identity provider's; nobody changes them here. */
export const memberSchema = z
  .object({
    id: z.string().meta({ description: 'As the identity provider names the person', examples: ['amara.osei'] }),
    name: z.string(),
    roles: z.array(z.enum(roles)).meta({ description: 'As of the last request' }),
    first_seen_at: timestampSchema,
    last_seen_at: timestampSchema.meta({ description: 'Right within a minute' }),
  })
  .meta({ id: 'Member' })
export type Member = z.infer<typeof memberSchema>
