import { z } from 'zod'
import type { SessionStore } from '../session/store.ts'
import { randomId } from '../session/sessions.ts'

/** A sign-in whose person has several tenants, until one is chosen. Stored encrypted; the cookie is the key. */
const choiceSchema = z.object({
  issuer: z.string(),
  begunAt: z.number(),
  returnTo: z.string(),
  signedIn: z.object({
    subject: z.string(),
    sid: z.string().optional(),
    name: z.string().optional(),
    email: z.string().optional(),
    tokens: z.object({
      access: z.string(),
      refresh: z.string().optional(),
      id: z.string().optional(),
      accessExpiresAt: z.number(),
    }),
  }),
})
export type Choice = Readonly<z.infer<typeof choiceSchema>>

/** Together with the sign-in, shorter than the store remembers a logout notice. */
export const choiceLifeMs = 240_000

/** Stores the choice and returns the content of the cookie. */
export async function storeChoice(store: Pick<SessionStore, 'putOnce'>, choice: Choice): Promise<string> {
  const ticket = randomId()
  await store.putOnce(ticket, JSON.stringify(choice), choiceLifeMs)
  return ticket
}

/** Returns the choice once. */
export async function consumeChoice(
  store: Pick<SessionStore, 'takeOnce'>,
  ticket: string | undefined,
): Promise<Choice | undefined> {
  const text = ticket === undefined ? undefined : await store.takeOnce(ticket)
  return text === undefined ? undefined : choiceSchema.parse(JSON.parse(text))
}
