import { z } from 'zod'

/** Encrypted in Redis; the browser sees only the person and the CSRF token. */
export const sessionContentSchema = z.object({
  createdAt: z.number(),
  issuer: z.string(),
  subject: z.string(),
  sid: z.string().optional(),
  person: z.object({ id: z.string(), name: z.string(), email: z.string().nullable() }),
  tenant: z.object({ id: z.string(), name: z.string() }),
  roles: z.array(z.string()),
  /** Whether the person has other tenants. */
  canSwitch: z.boolean().default(false),
  csrfToken: z.string(),
  tokens: z.object({
    access: z.string(),
    refresh: z.string().optional(),
    /** For the sign-out at the provider. */
    id: z.string().optional(),
    accessExpiresAt: z.number(),
  }),
})
export type SessionContent = Readonly<z.infer<typeof sessionContentSchema>>

export interface Session {
  /** The content of the browser's cookie; a secret. */
  readonly id: string
  readonly content: SessionContent
  readonly expiresAt: number
  readonly idleExpiresAt: number
}
