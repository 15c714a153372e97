import { z } from 'zod'
import type { creatableConnectorTypes } from './connector.ts'

/** One line without control characters; stored as sent. */
const rawLine = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .regex(/^[^\p{Cc}]*$/u, { message: 'must be one line' })

const urlSchema = z.string().max(2000).refine(isHttpUrl, {
  message: 'must be an https URL without a user, a password or a fragment, such as https://hr.example/people',
})

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, hash } = new URL(text)
  return (protocol === 'https:' || protocol === 'http:') && username === '' && password === '' && hash === ''
}

const ca = z
  .string()
  .max(65_536)
  .optional()
  .meta({
    description: 'Certificates (PEM) that are trusted instead of the public ones',
    examples: ['-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n'],
  })
const host = rawLine(255)
  .regex(/^[A-Za-z0-9.:_-]+$/, { message: 'must be a host name or an address, without a scheme and a port' })
  .meta({ description: 'Name or address of the server', examples: ['db.harbourline.example'] })
const port = (fallback: string) =>
  z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .meta({ description: `Default: ${fallback}`, examples: [5432] })

/** These must not carry a secret. */
const ownHeader =
  /^(?:accept|accept-.*|host|user-agent|content-.*|connection|keep-alive|transfer-encoding|te|trailer|upgrade|expect|range|if-.*|proxy-.*|referer|origin)$/i

const username = rawLine(255)
  .regex(/^[^:]*$/, { message: 'must not contain a colon' })
  .meta({ description: 'The user; the secret `password` has the password', examples: ['postern'] })

export const staticAuthSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  z.strictObject({ kind: z.literal('basic'), username }),
  z.strictObject({ kind: z.literal('bearer') }),
  z.strictObject({
    kind: z.literal('header'),
    name: z
      .string()
      .regex(/^[A-Za-z][A-Za-z0-9-]{0,63}$/, { message: 'must be the name of a header, such as X-Api-Key' })
      .refine((name) => !ownHeader.test(name), 'must not be a header that every request has')
      .meta({ description: 'The header that carries the secret `token`', examples: ['X-Api-Key'] }),
  }),
])

export const httpAuthSchema = z
  .discriminatedUnion('kind', [
    ...staticAuthSchema.options,
    z.strictObject({
      kind: z.literal('oauth_client_credentials'),
      token_url: urlSchema.meta({ description: 'The token endpoint', examples: ['https://login.example/oauth/token'] }),
      client_id: rawLine(255).meta({ description: 'The client; the secret is `client_secret`', examples: ['postern'] }),
      scope: rawLine(1000)
        .optional()
        .meta({ description: 'Scopes of the token', examples: ['people.read'] }),
      audience: rawLine(1000)
        .optional()
        .meta({ description: 'Audience of the token', examples: ['https://hr.example'] }),
      resource: rawLine(1000)
        .optional()
        .meta({ description: 'Resource indicator (RFC 8707)', examples: ['https://hr.example'] }),
      client_authentication: z
        .enum(['post', 'basic'])
        .default('post')
        .meta({ description: 'How the client authenticates: in the form, or by Basic' }),
    }),
  ])
  .meta({ id: 'ConnectorHttpAuth' })

const authText = 'How requests authenticate. Secrets: `password` for `basic`, `token` for `bearer` and `header`'
const httpAuth = httpAuthSchema
  .default({ kind: 'none' })
  .meta({ description: `${authText}, \`client_secret\` for \`oauth_client_credentials\`` })

const pointer = (form: string) =>
  z
    .string()
    .max(255)
    .regex(/^(?:\/(?:[^~/]|~[01])*)*$/, { message: `must be a JSON Pointer (RFC 6901), such as ${form}` })

const parameter = z
  .string()
  .regex(/^[A-Za-z0-9_.$[\]-]{1,64}$/, { message: 'must be the name of a query parameter, such as page' })

export const pagingSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  z.strictObject({
    kind: z.literal('page'),
    parameter: parameter.default('page').meta({ description: 'The query parameter', examples: ['offset'] }),
    first: z.int().min(0).max(1).default(1).meta({ description: 'Its value for the first page' }),
    step: z
      .int()
      .min(1)
      .max(100_000)
      .default(1)
      .meta({ description: 'What the next page adds: 1 for page numbers, the page size for offsets' }),
  }),
  z.strictObject({
    kind: z.literal('cursor'),
    parameter: parameter.default('cursor').meta({ description: 'The query parameter', examples: ['after'] }),
    next: pointer('/next').meta({
      description: 'Where a page has the value for the next request, or its URL (JSON Pointer, RFC 6901)',
      examples: ['/paging/next'],
    }),
  }),
  z.strictObject({ kind: z.literal('link') }),
])

/** WHATWG labels, and `auto`. */
export const csvEncodings = [
  'auto',
  'utf-8',
  'utf-16le',
  'utf-16be',
  'windows-1250',
  'windows-1251',
  'windows-1252',
  'windows-1253',
  'windows-1254',
  'windows-1257',
  'iso-8859-2',
  'iso-8859-15',
  'macintosh',
  'shift_jis',
  'euc-kr',
  'gb18030',
  'big5',
] as const
const tableName = z.string().trim().normalize('NFC').min(1).max(255)

export const csvConfigSchema = z
  .strictObject({
    url: urlSchema.optional().meta({
      description: 'Where the file is fetched. Without it, upload a file with each run',
      examples: ['https://files.harbourline.example/entities.csv'],
    }),
    auth: staticAuthSchema.default({ kind: 'none' }).meta({ description: authText }),
    ca,
    encoding: z.enum(csvEncodings).default('auto').meta({ description: 'Encoding of a CSV' }),
    delimiter: z
      .enum([',', ';', '\t', '|'], { error: 'must be a comma, a semicolon, a tab or |' })
      .optional()
      .meta({ description: 'Character between cells. Default: detected' }),
    columns: z
      .array(tableName)
      .min(1)
      .max(500)
      .optional()
      .meta({
        description: 'The columns to read; a run fails if one is missing. Default: all',
        examples: [['external_id', 'name', 'type']],
      }),
    lenient_quotes: z.boolean().default(false).meta({ description: 'Whether quotes may stand inside a cell' }),
    short_rows: z
      .boolean()
      .default(false)
      .meta({ description: 'Whether rows may end early, as some spreadsheets write them' }),
    sheet: tableName
      .optional()
      .meta({ description: 'Sheet of a workbook. Default: the first that is shown', examples: ['Entities'] }),
    header_row: z
      .int()
      .min(1)
      .max(1_048_576)
      .optional()
      .meta({ description: 'Row of a workbook with the names. Default: the first with a value', examples: [3] }),
  })
  .meta({
    id: 'CsvConnectorConfig',
    description: 'A CSV file or an Excel workbook (`.xlsx`), uploaded with each run or fetched',
    examples: [{ url: 'https://files.harbourline.example/entities.csv', delimiter: ';', auth: { kind: 'bearer' } }],
  })

export const httpJsonConfigSchema = z
  .strictObject({
    url: urlSchema.meta({ description: 'The first page', examples: ['https://hr.harbourline.example/units'] }),
    auth: httpAuth,
    ca,
    items: pointer('/data')
      .default('')
      .meta({ description: 'Where a page has its list (JSON Pointer, RFC 6901); empty if the page is the list' }),
    paging: pagingSchema.default({ kind: 'none' }).meta({ description: 'How to find the next page' }),
  })
  .meta({
    id: 'HttpJsonConnectorConfig',
    description: 'Pages of JSON over HTTP',
    examples: [
      {
        url: 'https://hr.harbourline.example/units',
        auth: { kind: 'header', name: 'X-Api-Key' },
        items: '/data',
        paging: { kind: 'cursor', parameter: 'after', next: '/paging/next' },
      },
    ],
  })

export const scimConfigSchema = z
  .strictObject({
    url: urlSchema.meta({
      description: 'Base URL of the service provider, without `/Users`',
      examples: ['https://idp.harbourline.example/scim/v2'],
    }),
    auth: httpAuth,
    ca,
    resource: z.enum(['Users', 'Groups']).default('Users').meta({ description: 'The resources to read' }),
    filter: rawLine(2000)
      .optional()
      .meta({ description: 'Filter (RFC 7644 §3.4.2.2)', examples: ['active eq true'] }),
    page_size: z.int().min(1).max(1000).default(100).meta({ description: 'Resources per page' }),
  })
  .meta({
    id: 'ScimConnectorConfig',
    description: 'Users or groups of a SCIM 2.0 service provider',
    examples: [{ url: 'https://idp.harbourline.example/scim/v2', auth: { kind: 'bearer' }, resource: 'Users' }],
  })

const ldapFilter = z.string().max(4000)
const attribute = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9-]{0,63}$/, { message: 'must be the name of an attribute, such as displayName' })

export const ldapConfigSchema = z
  .strictObject({
    host,
    port: port('636 for `ldaps`, 389 for `starttls`'),
    encryption: z.enum(['ldaps', 'starttls']).default('ldaps').meta({ description: 'How the connection is encrypted' }),
    ca,
    bind_dn: rawLine(1000).meta({
      description: 'The account; the secret `password` has its password',
      examples: ['cn=postern,ou=services,dc=harbourline,dc=example'],
    }),
    base_dn: rawLine(1000).meta({ description: 'Where the search begins', examples: ['dc=harbourline,dc=example'] }),
    filter: ldapFilter.default('(objectClass=*)').meta({ description: 'Filter (RFC 4515)' }),
    scope: z.enum(['sub', 'one']).default('sub').meta({ description: 'The whole subtree, or one level' }),
    attributes: z
      .array(attribute)
      .min(1)
      .max(200)
      .default(['ou', 'cn', 'name', 'displayName', 'description', 'givenName', 'sn', 'mail', 'uid', 'title', 'manager'])
      .meta({ description: 'The attributes to read' }),
    key_attribute: attribute.default('entryUUID').meta({
      description: 'An attribute that survives renames and moves: `objectGUID` in Active Directory',
    }),
    parent_filter: ldapFilter
      .default('(objectClass=organizationalUnit)')
      .meta({ description: 'Filter of possible parents; the key of the nearest one is `parent_key`' }),
    page_size: z.int().min(1).max(1000).default(500).meta({ description: 'Entries per page' }),
    ignore_referrals: z
      .boolean()
      .default(false)
      .meta({ description: 'Whether to skip references to other directories; otherwise each is an error of the run' }),
  })
  .meta({
    id: 'LdapConnectorConfig',
    description: 'Entries of a directory',
    examples: [
      {
        host: 'dc1.harbourline.example',
        bind_dn: 'cn=postern,ou=services,dc=harbourline,dc=example',
        base_dn: 'ou=staff,dc=harbourline,dc=example',
        filter: '(objectClass=person)',
        key_attribute: 'objectGUID',
      },
    ],
  })

const sqlName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_$]{0,62}$/, { message: 'must be the name of a table, a view or a column' })

export const sqlConfigSchema = z
  .strictObject({
    engine: z.enum(['postgres', 'mariadb']).meta({ description: 'The database' }),
    host,
    port: port('5432 for `postgres`, 3306 for `mariadb`'),
    encryption: z
      .enum(['tls', 'none'])
      .default('tls')
      .meta({ description: '`none` works only for addresses that the operator allows' }),
    ca,
    database: rawLine(63).meta({ description: 'Name of the database', examples: ['hr'] }),
    username: rawLine(63).meta({ description: 'The account; the secret is `password`', examples: ['postern'] }),
    schema: sqlName.optional().meta({ description: 'Schema of the view', examples: ['reporting'] }),
    view: sqlName.meta({ description: 'The view or table to read', examples: ['audit_units'] }),
    columns: z
      .array(sqlName)
      .min(1)
      .max(500)
      .optional()
      .meta({ description: 'The columns to read. Default: all', examples: [['external_id', 'name', 'type']] }),
  })
  .meta({
    id: 'SqlConnectorConfig',
    description: 'A view or table of a database',
    examples: [
      { engine: 'postgres', host: 'db.harbourline.example', database: 'hr', username: 'postern', view: 'audit_units' },
    ],
  })

/** Described here. The sync service also checks certificates and filters of directories. */
export const connectorConfigSchemas: Readonly<Record<(typeof creatableConnectorTypes)[number], z.ZodObject>> = {
  csv: csvConfigSchema,
  http_json: httpJsonConfigSchema,
  scim: scimConfigSchema,
  ldap: ldapConfigSchema,
  sql: sqlConfigSchema,
}
