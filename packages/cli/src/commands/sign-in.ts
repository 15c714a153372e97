import {
  type Claims,
  type Grant,
  type SignInProvider,
  type SignInRefusal,
  type TokenCheck,
  createUserinfoReader,
  explainRefusal,
  findClaim,
  listNamedTenants,
  openKeySet,
  readGrants,
  readSignIn,
  refuseTenants,
  verifyToken,
} from '@postern/sign-in'
import { decodeJwt } from 'jose'
import { CliError, unavailableError, usageError } from '../cli-error.ts'
import { describeFailure, obtainToken } from '../obtain-token.ts'
import { exitCodes } from '../exit-code.ts'
import { type CommandContext, type OutputOptions, printJson, withKeysService } from '../session.ts'
import { readSetting } from '../settings.ts'
import { formatSheet } from '../table.ts'
import { readWholeText } from '../text-file.ts'
import { allTenants } from './tenants.ts'

const names = [
  'POSTERN_SIGN_IN',
  'POSTERN_OIDC_ISSUER',
  'POSTERN_OIDC_AUDIENCE',
  'POSTERN_OIDC_TENANT_CLAIM',
  'POSTERN_OIDC_ROLES_CLAIM',
  'POSTERN_OIDC_CLIENT_ID',
] as const

type CheckOptions = OutputOptions & {
  readonly token?: string
  readonly provider?: string
  readonly port: number
  readonly device?: true
}

/** Signs in or reads a token, with the settings of gateway and console, and shows what Postern reads from it. */
export async function checkSignIn(context: CommandContext, options: CheckOptions): Promise<void> {
  const providers = await readProviders(context)
  const tenants = await readTenants(context)
  if (tenants !== undefined) assertTenantsExist(providers, tenants)
  const token =
    options.token === undefined
      ? await signIn(context, chooseProvider(providers, options.provider), options)
      : (await readWholeText(options.token)).trim()
  const readUserinfo = createUserinfoReader()
  let userinfo: Claims | undefined
  let check: TokenCheck
  try {
    check = await verifyToken(token, providers, {
      keysOf: openKeySet,
      readUserinfo: async (request) => {
        const answer = await readUserinfo(request)
        if (answer.kind === 'claims') userinfo = answer.claims
        return answer
      },
    })
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown'
    const line = `the keys or the userinfo of the provider cannot be read: ${why}. Check the issuer and the network`
    throw unavailableError(line, error)
  }
  const { claims: ofToken, provider } = readUnverified(token, providers)
  const claims = userinfo ?? ofToken
  const read = provider === undefined ? [] : describeReading(provider, claims, check)
  const masked = Object.entries(claims).map(([name, value]): [string, string] => [name, mask(value)])
  const refusal = findRefusal(check, tenants)
  const report = {
    provider: provider?.name ?? null,
    claims: Object.fromEntries(masked),
    read: Object.fromEntries(read),
    refusal: refusal ?? null,
  }
  if (options.json) printJson(context, report)
  else {
    context.print(`provider: ${provider?.name ?? 'none of the settings'}`)
    if (masked.length > 0) context.print(`\nclaims, masked:\n${formatSheet(masked)}`)
    if (read.length > 0) context.print(`\nPostern reads:\n${formatSheet(read)}`)
  }
  if (refusal === undefined) return
  const line = `nobody is signed in: ${explainRefusal(refusal)} (${refusal.code})`
  throw new CliError(exitCodes.unexpected, line, { ...refusal, detail: line })
}

/** The ids and slugs of all tenants. Undefined without the operator's settings. */
async function readTenants({ env }: CommandContext): Promise<ReadonlySet<string> | undefined> {
  if ((await readSetting(env, 'POSTERN_KEYS_URL')) === undefined) return undefined
  const tenants = await withKeysService(env, allTenants)
  return new Set(tenants.flatMap(({ id, slug }) => [id, slug]))
}

function assertTenantsExist(providers: readonly SignInProvider[], tenants: ReadonlySet<string>): void {
  const unknown = listNamedTenants(providers).filter(({ reference }) => !tenants.has(reference))
  if (unknown.length === 0) return
  const places = unknown.map(({ path, reference }) => `${path} names ${reference}`)
  const line = `the sign-in file names tenants that do not exist. Create them, or correct the file: ${places.join('; ')}`
  throw new CliError(exitCodes.unexpected, line, { code: 'tenant_unknown', detail: line })
}

/** Why nobody is signed in. The gateway refuses a person if none of the tenants exists. */
function findRefusal(check: TokenCheck, tenants: ReadonlySet<string> | undefined): SignInRefusal | undefined {
  if (check.kind === 'refused') return check.refusal
  const { grants, withoutRoles } = check.person
  if (tenants === undefined || grants.some(({ tenant }) => tenants.has(tenant))) return withoutRoles
  return refuseTenants(check.person)
}

const signInTimeoutMs = 300_000

function chooseProvider(providers: readonly SignInProvider[], name: string | undefined): SignInProvider {
  const known = providers.map((provider) => provider.name).join(', ')
  const [first, ...others] = providers
  const found = name === undefined && others.length === 0 ? first : providers.find((each) => each.name === name)
  if (found === undefined) throw usageError(`choose one with --provider: ${known}`)
  return found
}

async function signIn(context: CommandContext, provider: SignInProvider, options: CheckOptions): Promise<string> {
  const { clientSecretFile: file } = provider
  const secret =
    file === undefined
      ? await readSetting(context.env, 'POSTERN_OIDC_CLIENT_SECRET')
      : (await readWholeText(file)).trim()
  try {
    return await obtainToken(provider, {
      secret,
      port: options.device === true ? undefined : options.port,
      note: (line) => context.note?.(line),
      timeoutMs: signInTimeoutMs,
    })
  } catch (error) {
    const line = `nobody is signed in: ${describeFailure(error)}`
    throw new CliError(exitCodes.unexpected, line, { code: 'sign_in_failed', detail: line }, error)
  }
}

async function readProviders({ env }: CommandContext): Promise<readonly SignInProvider[]> {
  const values: Record<string, string> = {}
  for (const name of names) {
    const value = await readSetting(env, name)
    if (value !== undefined) values[name] = value
  }
  let providers: readonly SignInProvider[]
  try {
    providers = readSignIn(values)
  } catch (error) {
    throw usageError(error instanceof Error ? error.message : 'the settings of the sign-in cannot be read')
  }
  if (providers.length === 0)
    throw usageError('no provider is configured. Set POSTERN_SIGN_IN_FILE or POSTERN_OIDC_ISSUER')
  return providers
}

interface UnverifiedToken {
  readonly claims: Readonly<Record<string, unknown>>
  readonly provider: SignInProvider | undefined
}

function readUnverified(token: string, providers: readonly SignInProvider[]): UnverifiedToken {
  try {
    const claims = decodeJwt(token.split('~')[0] ?? '')
    return { claims, provider: providers.find(({ issuer }) => issuer === claims.iss) }
  } catch {
    return { claims: {}, provider: undefined }
  }
}

function describeReading(
  provider: SignInProvider,
  claims: UnverifiedToken['claims'],
  check: TokenCheck,
): readonly [string, string][] {
  const person = check.kind === 'valid' ? check.person : undefined
  const from = (pointers: readonly string[]): string => {
    const pointer = findClaim(claims, pointers)
    return pointer === undefined ? `nothing at ${pointers.join(', ')}` : `from ${pointer}`
  }
  const row = (name: string, value: string | undefined, pointers: readonly string[]): [string, string] => [
    name,
    value === undefined || value === '' ? from(pointers) : `${value} (${from(pointers)})`,
  ]
  return [
    ...describeMachine(provider, check),
    row('subject', person === undefined ? undefined : mask(person.subject), provider.subject),
    row('name', person === undefined ? undefined : mask(person.name), provider.displayName),
    ...(provider.directory === undefined
      ? []
      : [row('in the directory', maskName(person?.inDirectory?.name), [provider.directory.match])]),
    ...describeGrants(provider, claims, person?.grants ?? []).map(([name, value, pointers]) =>
      row(name, value, pointers),
    ),
  ]
}

/** The client of a service account, and the member of the file that accepts or refuses it. */
function describeMachine({ machines }: SignInProvider, check: TokenCheck): readonly [string, string][] {
  if (check.kind === 'valid') {
    const { isMachine, name } = check.person
    return isMachine ? [['service account', `accepted as ${name} (machines.clients)`]] : []
  }
  if (check.refusal.code !== 'machine_refused') return []
  const rule = machines.size === 0 ? 'machines: refuse' : `not in machines.clients: ${[...machines].join(', ')}`
  return [['service account', `refused as ${check.refusal.found} (${rule})`]]
}

/** Tenant and roles, or several tenants with the roles in each. */
function describeGrants(
  provider: SignInProvider,
  claims: UnverifiedToken['claims'],
  grants: readonly Grant[],
): readonly (readonly [string, string | undefined, readonly string[]])[] {
  const { tenant, roles, grants: settings } = provider
  const [only, ...others] = grants
  const isByGrants = settings !== undefined && readGrants(provider, claims).length > 0
  if (isByGrants) {
    return grants.map((grant) => [`tenant ${grant.tenant}`, grant.roles.join(', '), settings.from])
  }
  return [
    ['tenant', others.length === 0 ? only?.tenant : undefined, tenant.from],
    ['roles', only?.roles.join(', '), roles.from],
  ]
}

function maskName(name: string | undefined): string | undefined {
  return name === undefined ? undefined : mask(name)
}

/** Shows the form of a value: two characters of a text, and the length of what is hidden. */
function mask(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(mask).join(', ')}]`
  if (typeof value === 'object' && value !== null) {
    return `{${Object.entries(value)
      .map(([name, inner]) => `${name}: ${mask(inner)}`)
      .join(', ')}}`
  }
  if (typeof value !== 'string') return String(value)
  return value.length < 5 ? '•'.repeat(value.length) : `${value.slice(0, 2)}… (${value.length} characters)`
}
