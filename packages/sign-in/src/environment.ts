import { wordsOf } from '@postern/contracts'
import { isProtectedUrl } from '@postern/contracts/internal'
import { z } from 'zod'
import { pointerTo } from './pointer.ts'
import { type SignInProvider, line, parseProviders, parseSignIn } from './settings.ts'

/** Settings of the gateway and the console. */
export const signInEnvironment = {
  POSTERN_SIGN_IN: z
    .string()
    .transform((content, context): readonly SignInProvider[] => {
      try {
        return parseSignIn(content)
      } catch (error) {
        const message = error instanceof Error ? error.message : 'cannot be read'
        context.addIssue({ code: 'custom', message })
        return z.NEVER
      }
    })
    .optional()
    .describe(
      'The OpenID providers and how people are read from their tokens, as JSON or YAML; usually a file, named by `POSTERN_SIGN_IN_FILE`. The same for gateway and console. See the guide to single sign-on.',
    ),
  POSTERN_SIGN_IN_DETAILS: z
    .enum(['on', 'off'])
    .default('off')
    .transform((value) => value === 'on')
    .describe(
      'Whether the page of a refused sign-in and the 401 of a refused token say the cause in plain words. The log always does.',
    ),
  POSTERN_OIDC_ISSUER: z
    .string()
    .refine(isProtectedUrl, { message: 'must be an https URL (http only on the loopback address)' })
    .optional()
    .describe(
      'The only OpenID provider, exactly as it names itself, in place of `POSTERN_SIGN_IN`. Without both, nobody can sign in, and `Bearer` is rejected.',
    ),
  POSTERN_OIDC_AUDIENCE: line.default('postern').describe('The audience that access tokens must have.'),
  POSTERN_OIDC_TENANT_CLAIM: line
    .default('postern_tenant')
    .describe('The claim that holds the id or the slug of the tenant.'),
  POSTERN_OIDC_ROLES_CLAIM: line
    .default('postern_roles')
    .describe('The claim that holds the roles `postern-viewer`, `postern-auditor` or `postern-admin`.'),
} as const

type SignInSettings = Omit<z.output<z.ZodObject<typeof signInEnvironment>>, 'POSTERN_SIGN_IN_DETAILS'>

/** Returns the providers of the file, or the one of the variables. `client` holds its members for the console. */
export function signInProviders(values: SignInSettings, client: object = {}): readonly SignInProvider[] {
  const { POSTERN_SIGN_IN: providers, POSTERN_OIDC_ISSUER: issuer } = values
  if (providers !== undefined && issuer !== undefined)
    throw new Error('POSTERN_SIGN_IN: set it or POSTERN_OIDC_ISSUER, not both')
  if (issuer === undefined) return providers ?? []
  return parseProviders({
    providers: [
      {
        name: 'your organization',
        issuer,
        audience: [values.POSTERN_OIDC_AUDIENCE],
        tenant: { from: [pointerTo(values.POSTERN_OIDC_TENANT_CLAIM)] },
        roles: { from: [pointerTo(values.POSTERN_OIDC_ROLES_CLAIM)] },
        ...client,
      },
    ],
  })
}

const textSchema = z.object(signInEnvironment)

/** Reads the providers from texts of the settings, for commands. Throws an error that lists each mistake. */
export function readSignIn(texts: Readonly<Record<string, string>>): readonly SignInProvider[] {
  const parsed = textSchema.safeParse(texts)
  if (parsed.success) {
    const clientId = texts['POSTERN_OIDC_CLIENT_ID']
    return signInProviders(parsed.data, clientId === undefined ? {} : { client_id: clientId })
  }
  throw new Error(parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${wordsOf(issue)}`).join('; '))
}
