import { z } from 'zod'

/** What a session holds. It lies in Redis, sealed; of it the browser is told who the person is, and the CSRF token. */
export const sessionContentSchema = z.object({
  /** Milliseconds since the epoch. */
  createdAt: z.number(),
  issuer: z.string(),
  /** The person and the sign-in as the provider names them, to find the session when the provider ends it. */
  subject: z.string(),
  sid: z.string().optional(),
  person: z.object({ id: z.string(), name: z.string(), email: z.string().nullable() }),
  tenant: z.object({ id: z.string(), name: z.string() }),
  roles: z.array(z.string()),
  csrfToken: z.string(),
  tokens: z.object({
    access: z.string(),
    refresh: z.string().optional(),
    /** Milliseconds since the epoch. */
    accessExpiresAt: z.number(),
  }),
})
export type SessionContent = Readonly<z.infer<typeof sessionContentSchema>>

/** A live session of a request. */
export interface Session {
  /** What the browser's cookie holds. A secret. */
  readonly id: string
  readonly content: SessionContent
  readonly expiresAt: number
  readonly idleExpiresAt: number
}
