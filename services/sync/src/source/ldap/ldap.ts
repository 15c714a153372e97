import { type Entry, FilterParser } from 'ldapts'
import { ldapConfigSchema } from '@postern/contracts'
import type { z } from 'zod'
import { SourceReadError } from '../source-read-error.ts'
import { requireSecret } from '../http/authorize.ts'
import { caSchema } from '../http/fields.ts'
import { type SourceContext, type SourceItem, type SourceType, defineSourceType } from '../types.ts'
import { type LdapConnection, connectDirectory, ldapFailure } from './connection.ts'
import { withRequestedNames, keyOf, parentName, toPlainName, valuesOf } from './entry.ts'

const filterMessage = { message: 'must be a filter (RFC 4515), such as (objectClass=person)' }
const configSchema = ldapConfigSchema.safeExtend({
  ca: caSchema.optional(),
  filter: ldapConfigSchema.shape.filter.refine(isFilter, filterMessage),
  parent_filter: ldapConfigSchema.shape.parent_filter.refine(isFilter, filterMessage),
})
type LdapConfig = z.output<typeof configSchema>

export const ldap: SourceType = defineSourceType({
  type: 'ldap',
  configSchema,
  secretNames: ['password'],
  attributesOf: ({ attributes, key_attribute: key }) => [...attributes, key, ...ownNames],
  read: readLdap,
})

const ownNames = ['dn', 'key', 'parent_key']

async function* readLdap(context: SourceContext<LdapConfig>): AsyncGenerator<SourceItem> {
  const { config, secrets, limits } = context
  const password = requireSecret(secrets, 'password')
  const connection = await connectDirectory(config, context)
  try {
    await connection.wait(connection.client.bind(config.bind_dn, password))
    const parents = await readParents(connection, config, limits.maxPages)
    let row = 0
    for await (const found of search(connection, config, config.filter, config.attributes, limits.maxPages)) {
      row++
      yield typeof found === 'string'
        ? {
            kind: 'error',
            row,
            code: 'referral',
            message: `${found.slice(0, 80)} is in another directory and is not read`,
          }
        : toItem(found, row, config, parents)
    }
  } catch (error) {
    throw failureOf(error, connection)
  } finally {
    await connection.close()
  }
}

function failureOf(error: unknown, { host, bytes }: LdapConnection): unknown {
  return bytes.failure() ?? ldapFailure(error, host)
}

/** With more of them, the filter probably matches everything. */
const maxParents = 100_000

/** Read before the entries, because an entry may come before its parent. */
async function readParents(
  connection: LdapConnection,
  config: LdapConfig,
  maxPages: number,
): Promise<ReadonlyMap<string, string>> {
  const parents = new Map<string, string>()
  for await (const entry of search(connection, { ...config, scope: 'sub' }, config.parent_filter, [], maxPages)) {
    if (typeof entry === 'string') continue
    const key = keyOf(entry, config.key_attribute)
    if (key !== undefined) parents.set(toPlainName(entry.dn), key)
    if (parents.size > maxParents) {
      const message = `\`parent_filter\` finds more than ${maxParents} entries: make it match only parent units`
      throw new SourceReadError('too_many_parents', message)
    }
  }
  return parents
}

async function* search(
  { client, bytes, wait }: LdapConnection,
  { base_dn: base, scope, key_attribute: key, page_size: pageSize, ignore_referrals: ignoreReferrals }: LdapConfig,
  wanted: string,
  attributes: readonly string[],
  maxPages: number,
): AsyncGenerator<Entry | string> {
  const asked = [...attributes, key]
  const options = {
    scope,
    filter: wanted,
    attributes: asked,
    // The server may use the requested spelling.
    explicitBufferAttributes: ['objectGUID', ...asked.filter((name) => name.toLowerCase() === 'objectguid')],
    paged: { pageSize },
  }
  const answers = client.searchPaginated(base, options)
  for (let pages = 1; ; pages++) {
    const answer = await wait(answers.next())
    if (answer.done === true) return
    const { searchEntries, searchReferences } = answer.value
    bytes.page()
    if (pages > maxPages) throw new SourceReadError('paging_endless', `the directory has more than ${maxPages} pages`)
    // The library stops after an empty page, although more may follow.
    if (pages > 1 && searchEntries.length + searchReferences.length === 0) {
      throw new SourceReadError('page_empty', 'the directory returned an empty page before its end', {
        retryable: true,
      })
    }
    yield* searchEntries.map((entry) => withRequestedNames(entry, asked))
    if (!ignoreReferrals) yield* searchReferences
  }
}

function toItem(entry: Entry, row: number, config: LdapConfig, parents: ReadonlyMap<string, string>): SourceItem {
  const key = keyOf(entry, config.key_attribute)
  if (key === undefined) {
    const message = `${entry.dn.slice(0, 80)} has no readable ${config.key_attribute}: let the account read it, or set \`key_attribute\``
    return { kind: 'error', row, field: config.key_attribute, code: 'key_missing', message }
  }
  const { dn, ...attributes } = entry
  const values = { ...valuesOf({ ...attributes, dn }), dn, key, parent_key: nearestParent(dn, parents) ?? null }
  return { kind: 'row', row, values }
}

function nearestParent(name: string, parents: ReadonlyMap<string, string>): string | undefined {
  for (let above = parentName(name); above !== ''; above = parentName(above)) {
    const key = parents.get(toPlainName(above))
    if (key !== undefined) return key
  }
  return undefined
}

function isFilter(text: string): boolean {
  try {
    FilterParser.parseString(text)
    return true
  } catch {
    return false
  }
}
