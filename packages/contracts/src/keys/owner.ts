import { z } from 'zod'
import { documentAs } from '../parse-items-separately.ts'
import { line, timestampSchema } from '../common.ts'
import { emailSchema } from '../email.ts'

export const keyOwnerSchema = z
  .object({
    type: z.enum(['person', 'team']),
    id: z
      .string()
      .nullable()
      .meta({ description: 'The id of the person; null for a team', examples: ['amara.osei'] }),
    name: z.string().meta({ description: 'The name of the person or team', examples: ['Amara Osei'] }),
    contact: z
      .string()
      .nullable()
      .meta({
        description: 'The e-mail address of the team; null for a person',
        examples: ['soc@harbourline.example'],
      }),
    left_at: timestampSchema
      .nullable()
      .meta({ description: 'When the directory deactivated the person; null otherwise. Give the key another owner.' }),
  })
  .meta({ id: 'KeyOwner' })
export type KeyOwner = z.infer<typeof keyOwnerSchema>

export const ownerChoiceSchema = z
  .discriminatedUnion('type', [
    z.strictObject({
      type: z.literal('person'),
      id: line(1, 255).meta({ description: 'The id of a person of `GET /members`', examples: ['amara.osei'] }),
    }),
    z.strictObject({
      type: z.literal('team'),
      name: line(1, 100).meta({ description: 'The name of the team', examples: ['Security operations'] }),
      contact: emailSchema.meta({
        description: 'The e-mail address of the team',
        examples: ['soc@harbourline.example'],
      }),
    }),
  ])
  .meta({ id: 'KeyOwnerChoice', description: 'A person of the tenant, or a team with a contact address' })

export type OwnerChoice = z.infer<typeof ownerChoiceSchema>

/** Also the owner of a key as it was read. */
export const sentOwnerSchema = documentAs(
  z
    .custom<OwnerChoice | KeyOwner>((sent) => typeof sent === 'object' && sent !== null, {
      message: 'must be an object',
    })
    .transform((sent): OwnerChoice => {
      if (!('left_at' in sent)) return sent
      if (sent.type === 'person') return { type: 'person', id: sent.id ?? '' }
      return { type: 'team', name: sent.name, contact: sent.contact ?? '' }
    })
    .pipe(ownerChoiceSchema),
  () => ownerChoiceSchema,
)
