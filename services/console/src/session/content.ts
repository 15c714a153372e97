import { z } from 'zod'

/** The content of a session, encrypted in Redis. The browser sees only the person and the CSRF token. */
export const sessionContentSchema = z.object({
  /** In milliseconds since the epoch. */
  createdAt: z.number(),
  issuer: z.string(),
  /** The person and the sign-in as the provider names them, so that the provider can end the session. */
  subject: z.string(),
  sid: z.string().optional(),
  person: z.object({ id: z.string(), name: z.string(), email: z.string().nullable() }),
  tenant: z.object({ id: z.string(), name: z.string() }),
  roles: z.array(z.string()),
  csrfToken: z.string(),
  tokens: z.object({
    access: z.string(),
    refresh: z.string().optional(),
    /** In milliseconds since the epoch. */
    accessExpiresAt: z.number(),
  }),
})
export type SessionContent = Readonly<z.infer<typeof sessionContentSchema>>

/** The live session of a request. */
export interface Session {
  /** The content of the browser's cookie. A secret. */
  readonly id: string
  readonly content: SessionContent
  readonly expiresAt: number
  readonly idleExpiresAt: number
}
