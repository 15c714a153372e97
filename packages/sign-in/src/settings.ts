import { type Role, roles, uuidSchema, wordsOf } from '@postern/contracts'
import { type PersonLookup, directoryAttributes, isProtectedUrl, tenantSlugSchema } from '@postern/contracts/internal'
import { parseDocument } from 'yaml'
import { z } from 'zod'
import { parsePointer } from './pointer.ts'

/** An OpenID provider, and how people are read from its tokens. */
export interface SignInProvider {
  /** For people who choose among several providers. */
  readonly name: string
  /** Exactly the token's `iss`; used for discovery. */
  readonly issuer: string
  readonly allowHttp: boolean
  readonly clientId: string
  /** Read only by the console. */
  readonly clientSecretFile: string | undefined
  readonly audience: readonly string[]
  readonly scope: string
  readonly resource: string | undefined
  /** Additional parameters of the authorization request. */
  readonly parameters: ReadonlyMap<string, string>
  /** `userinfo`: the ID token signs in, and claims come from the userinfo endpoint. */
  readonly read: 'access_token' | 'id_token' | 'userinfo'
  readonly clockToleranceSeconds: number
  readonly subject: readonly string[]
  /** Put in front of each subject, so that people of several providers differ. */
  readonly personPrefix: string
  /** Prefixes of other providers, which no subject of this one may have. */
  readonly foreignPrefixes: readonly string[]
  readonly displayName: readonly string[]
  readonly tenant: {
    readonly from: readonly string[]
    readonly map: ReadonlyMap<string, string>
    readonly otherwise: string | undefined
  }
  readonly roles: {
    readonly from: readonly string[]
    /** Undefined: only the prefixed forms count. */
    readonly map: ReadonlyMap<string, Role> | undefined
  }
  /** By subject, or by verified email address in lower case. */
  readonly people: ReadonlyMap<string, Role>
  /** The clients of service accounts that may administer keys. */
  readonly machines: ReadonlySet<string>
  /** Names that hold tenant and role. Undefined: each person has one tenant. */
  readonly grants: { readonly from: readonly string[]; readonly forms: readonly GrantForm[] } | undefined
  /** How people are found in the directory of their tenant. Undefined: its state does not count. */
  readonly directory: DirectoryMatch | undefined
}

export interface DirectoryMatch {
  /** The pointer to the claim. */
  readonly match: string
  readonly with: PersonLookup['attribute']
  /** Whether people who are not in the directory are refused. */
  readonly isRequired: boolean
}

export interface NamedTenant {
  /** The place in the file. */
  readonly path: string
  /** An id or a slug. */
  readonly reference: string
}

/** The tenants that the file names. They may not exist. */
export function listNamedTenants(providers: readonly SignInProvider[]): readonly NamedTenant[] {
  return providers.flatMap(({ tenant: { map, otherwise } }, at) => {
    const path = ['providers', at, 'tenant']
    const mapped = [...map].map(([value, reference]) => ({ path: pathOf([...path, 'map', value]), reference }))
    return otherwise === undefined
      ? mapped
      : [...mapped, { path: pathOf([...path, 'otherwise']), reference: otherwise }]
  })
}

export const line = z.string().min(1).max(500)
const pointer = z.string().refine((given) => parsePointer(given) !== undefined, {
  message: 'must be a JSON Pointer (RFC 6901) such as /resource_access/postern-console/roles',
})
const pointers = z.array(pointer).min(1).max(10)
const role = z.enum(roles, { message: 'must be viewer, auditor or admin' })
const tenantReference = z
  .string()
  .refine((given) => uuidSchema.safeParse(given).success || tenantSlugSchema.safeParse(given).success, {
    message: 'must be the id or the slug of a tenant, as in postern tenants list',
  })
const grantForm = z
  .string()
  .max(200)
  .refine((form) => form.split('{tenant}').length === 2 && form.split('{role}').length === 2, {
    message: 'must hold {tenant} and {role} once each, such as /postern/{tenant}/{role}',
  })

/** What is before and behind the tenant in a name that grants a role. */
export interface GrantForm {
  readonly role: Role
  readonly before: string
  readonly after: string
}

function formsOf(form: string): readonly GrantForm[] {
  return roles.map((each) => {
    const [before = '', after = ''] = form.replace('{role}', each).split('{tenant}')
    return { role: each, before, after }
  })
}

const ownParameters: ReadonlySet<string> = new Set([
  'client_id',
  'client_secret',
  'code_challenge',
  'code_challenge_method',
  'nonce',
  'redirect_uri',
  'request',
  'request_uri',
  'resource',
  'response_mode',
  'response_type',
  'scope',
  'state',
])

const providerSchema = z.strictObject({
  name: z.string().trim().min(1).max(60),
  issuer: line,
  allow_http: z.boolean().default(false),
  client_id: line.default('postern-console'),
  client_secret_file: line.optional(),
  audience: z.array(line).min(1).max(10).optional(),
  scope: line
    .refine((given) => given.split(' ').includes('openid'), { message: 'must contain openid' })
    .default('openid profile email'),
  resource: line.optional(),
  parameters: z
    .record(
      z.string().refine((name) => !ownParameters.has(name)),
      line,
    )
    .default({}),
  read: z
    .enum(['access_token', 'id_token', 'userinfo'], { message: 'must be access_token, id_token or userinfo' })
    .default('access_token'),
  clock_tolerance_seconds: z.int().min(0).max(300).default(30),
  subject: pointers.default(['/sub']),
  person_prefix: z
    .string()
    .regex(/^[a-z0-9-]{1,20}:$/, 'must be lower-case letters, digits or hyphens and a final colon, such as partners:')
    .optional(),
  display_name: pointers.default(['/name', '/preferred_username', '/email']),
  tenant: z
    .strictObject({
      from: pointers.default(['/postern_tenant']),
      map: z.record(z.string(), tenantReference).default({}),
      otherwise: tenantReference.nullable().default(null),
    })
    .prefault({}),
  roles: z
    .strictObject({ from: pointers.default(['/postern_roles']), map: z.record(z.string(), role).optional() })
    .prefault({}),
  people: z.record(z.string(), role).default({}),
  machines: z
    .union([z.literal('refuse'), z.strictObject({ clients: z.array(line).min(1).max(50) })], {
      message: 'must be refuse, or the clients that may administer keys, such as { clients: [terraform] }',
    })
    .default('refuse'),
  grants: z.strictObject({ from: pointers, form: grantForm.prefault('/postern/{tenant}/{role}') }).optional(),
  directory: z
    .strictObject({
      match: pointer,
      with: z.enum(directoryAttributes, { message: 'must be externalId, userName or emails.value' }),
      required: z.boolean().default(false),
    })
    .optional(),
})

const fileSchema = z
  .strictObject({ providers: z.array(providerSchema).min(1).max(20) })
  .superRefine(({ providers }, context) => {
    const fault = (at: number, member: string, message: string): void =>
      context.addIssue({ code: 'custom', path: ['providers', at, member], message })
    for (const [at, { issuer, allow_http: isHttpAllowed, name, person_prefix: prefix }] of providers.entries()) {
      const before = providers.slice(0, at)
      if (!isProtectedUrl(issuer) && !(isHttpAllowed && /^http:\/\/./.test(issuer) && URL.canParse(issuer))) {
        fault(at, 'issuer', 'must be an https URL. For http in a closed network, set allow_http: true')
      }
      if (before.some((other) => other.issuer === issuer)) {
        fault(at, 'issuer', 'is the issuer of another provider. Write one provider with both mappings')
      }
      if (before.some((other) => other.name === name)) fault(at, 'name', 'is the name of another provider')
      if (before.some((other) => other.person_prefix === prefix)) {
        fault(at, 'person_prefix', 'must differ from that of the other providers, so that people are not confused')
      }
    }
  })

/** Parses the mapping file. Throws an error with the path and the fix of each mistake. */
export function parseSignIn(text: string): readonly SignInProvider[] {
  const document = parseDocument(text, { uniqueKeys: true, prettyErrors: true })
  const [unreadable] = document.errors
  if (unreadable !== undefined) {
    const [place] = unreadable.linePos ?? []
    const where = place === undefined ? '' : ` in line ${place.line}, column ${place.col}`
    throw new Error(`must be JSON or YAML: it cannot be read${where}`)
  }
  let content: unknown
  try {
    content = document.toJS({ maxAliasCount: 0 })
  } catch {
    throw new Error('must not use aliases of YAML. Write the value in each place')
  }
  return parseProviders(content)
}

/** Checks the content of the mapping file. Throws like `parseSignIn`. */
export function parseProviders(given: unknown): readonly SignInProvider[] {
  const parsed = fileSchema.safeParse(given)
  if (parsed.success) {
    const { providers } = parsed.data
    const prefixes = providers.flatMap(({ person_prefix: prefix }) => (prefix === undefined ? [] : [prefix]))
    return providers.map((provider) => toProvider(provider, prefixes))
  }
  const faults = parsed.error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((name) => `${pathOf([...issue.path, name])}: is not a member. Remove it or correct its name`)
      : [`${pathOf(issue.path)}: ${wordsOf(issue)}`],
  )
  throw new Error(faults.join('\n    '))
}

function toProvider(given: z.output<typeof providerSchema>, prefixes: readonly string[]): SignInProvider {
  const { person_prefix: prefix = '' } = given
  return {
    name: given.name,
    issuer: given.issuer,
    allowHttp: given.allow_http,
    clientId: given.client_id,
    clientSecretFile: given.client_secret_file,
    // An ID token is for the client.
    audience: given.audience ?? [given.read === 'access_token' ? 'postern' : given.client_id],
    scope: given.scope,
    resource: given.resource,
    parameters: new Map(Object.entries(given.parameters)),
    read: given.read,
    clockToleranceSeconds: given.clock_tolerance_seconds,
    subject: given.subject,
    personPrefix: prefix,
    foreignPrefixes: prefix === '' ? prefixes : [],
    displayName: given.display_name,
    tenant: {
      from: given.tenant.from,
      map: new Map(Object.entries(given.tenant.map)),
      otherwise: given.tenant.otherwise ?? undefined,
    },
    roles: {
      from: given.roles.from,
      map: given.roles.map === undefined ? undefined : new Map(Object.entries(given.roles.map)),
    },
    machines: new Set(given.machines === 'refuse' ? [] : given.machines.clients),
    grants: given.grants === undefined ? undefined : { from: given.grants.from, forms: formsOf(given.grants.form) },
    directory:
      given.directory === undefined
        ? undefined
        : { match: given.directory.match, with: given.directory.with, isRequired: given.directory.required },
    people: new Map(
      Object.entries(given.people).map(([who, theirs]) => [who.includes('@') ? who.toLowerCase() : who, theirs]),
    ),
  }
}

function pathOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return 'the file'
  return path
    .map((part) => (typeof part === 'string' && /^[\w-]+$/.test(part) ? `.${part}` : `[${JSON.stringify(part)}]`))
    .join('')
    .replace(/^\./, '')
}
