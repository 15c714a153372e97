import { type Setting, type SourceInfo, type Values, certificates, is, optionsOf } from './setting.ts'

const isFetched = is('from', 'url')

const authChoices = [
  { value: 'none', label: 'None' },
  { value: 'basic', label: 'User name and password' },
  { value: 'bearer', label: 'Bearer token' },
  { value: 'header', label: 'Custom header' },
] as const
const oauthChoice = { value: 'oauth_client_credentials', label: 'OAuth 2.0 client credentials' } as const

function authSettings(withOauth: boolean, when: (values: Values) => boolean = () => true): readonly Setting[] {
  const and = (kind: string) => (values: Values) => when(values) && values['auth.kind'] === kind
  return [
    {
      kind: 'choice',
      name: 'auth.kind',
      label: 'Credentials',
      choices: withOauth ? [...authChoices, oauthChoice] : authChoices,
      when,
    },
    { kind: 'text', name: 'auth.username', label: 'User name', isRequired: true, when: and('basic') },
    {
      kind: 'text',
      name: 'auth.name',
      label: 'Name of the header',
      placeholder: 'X-Api-Key',
      isRequired: true,
      when: and('header'),
    },
    {
      kind: 'text',
      name: 'auth.token_url',
      label: 'Token URL',
      placeholder: 'https://login.example.com/oauth2/token',
      isRequired: true,
      when: and('oauth_client_credentials'),
    },
    {
      kind: 'text',
      name: 'auth.client_id',
      label: 'Client ID',
      isRequired: true,
      when: and('oauth_client_credentials'),
    },
    { kind: 'text', name: 'auth.scope', label: 'Scope', when: and('oauth_client_credentials') },
    {
      kind: 'text',
      name: 'auth.audience',
      label: 'Audience',
      placeholder: 'https://api.example.com',
      help: 'The API that the token is for. Some servers, such as Auth0, require it.',
      isAdvanced: true,
      when: and('oauth_client_credentials'),
    },
    {
      kind: 'text',
      name: 'auth.resource',
      label: 'Resource',
      placeholder: 'https://api.example.com',
      help: 'The same, for servers that follow RFC 8707.',
      isAdvanced: true,
      when: and('oauth_client_credentials'),
    },
    {
      kind: 'choice',
      name: 'auth.client_authentication',
      label: 'Where the client secret is sent',
      choices: [
        { value: 'post', label: 'In the body' },
        { value: 'basic', label: 'In a header (HTTP Basic)' },
      ],
      isAdvanced: true,
      when: and('oauth_client_credentials'),
    },
  ]
}

function authSecrets(values: Values) {
  switch (values['auth.kind']) {
    case 'basic':
      return [{ name: 'password', label: 'Password' }]
    case 'bearer':
      return [{ name: 'token', label: 'Token' }]
    case 'header':
      return [{ name: 'token', label: 'Value of the header' }]
    case 'oauth_client_credentials':
      return [{ name: 'client_secret', label: 'Client secret' }]
    default:
      return []
  }
}

export const csv: SourceInfo = {
  title: 'File',
  description: 'A table of text (CSV) or a workbook (.xlsx), uploaded with each run or fetched from a URL.',
  settings: [
    {
      kind: 'choice',
      name: 'from',
      label: 'Where the file comes from',
      choices: [
        { value: 'upload', label: 'Uploaded with each run' },
        { value: 'url', label: 'Fetched from a URL' },
      ],
    },
    {
      kind: 'text',
      name: 'url',
      label: 'URL of the file',
      placeholder: 'https://files.example.com/processes.csv',
      isRequired: true,
      when: isFetched,
    },
    ...authSettings(false, isFetched),
    {
      kind: 'choice',
      name: 'delimiter',
      label: 'Separator',
      isAdvanced: true,
      choices: [
        { value: '', label: 'Detect automatically' },
        { value: ',', label: 'Comma' },
        { value: ';', label: 'Semicolon' },
        { value: '\t', label: 'Tab' },
        { value: '|', label: 'Vertical bar' },
      ],
    },
    {
      kind: 'choice',
      name: 'encoding',
      label: 'Encoding',
      isAdvanced: true,
      choices: [
        { value: '', label: 'Detect automatically' },
        ...optionsOf('utf-8', 'utf-16le', 'utf-16be', 'windows-1250', 'windows-1251', 'windows-1252', 'windows-1253'),
        ...optionsOf('windows-1254', 'windows-1257', 'iso-8859-2', 'iso-8859-15', 'macintosh', 'shift_jis', 'euc-kr'),
        ...optionsOf('gb18030', 'big5'),
      ],
    },
    {
      kind: 'list',
      name: 'columns',
      label: 'Columns to read',
      placeholder: 'All of them',
      help: 'Comma-separated. The header must contain them, in any order.',
      isAdvanced: true,
    },
    {
      kind: 'text',
      name: 'sheet',
      label: 'Sheet of a workbook',
      placeholder: 'The first one',
      isAdvanced: true,
    },
    {
      kind: 'number',
      name: 'header_row',
      label: 'Header row of a workbook',
      placeholder: 'The first row with a value',
      isAdvanced: true,
    },
    {
      kind: 'yes',
      name: 'short_rows',
      label: 'Rows may end early',
      help: 'Missing cells at the end of a row are empty.',
      isAdvanced: true,
    },
    {
      kind: 'yes',
      name: 'lenient_quotes',
      label: 'Values may contain quotes',
      isAdvanced: true,
    },
    certificates(isFetched),
  ],
  secrets: (values) => (isFetched(values) ? authSecrets(values) : []),
}

export const httpJson: SourceInfo = {
  title: 'HTTP API',
  description: 'Lists of JSON objects from a web service, page by page.',
  settings: [
    {
      kind: 'text',
      name: 'url',
      label: 'URL',
      placeholder: 'https://api.example.com/v1/departments',
      isRequired: true,
    },
    ...authSettings(true),
    {
      kind: 'text',
      name: 'items',
      label: 'Where the list is',
      placeholder: '/data/items',
      help: 'A JSON Pointer into the response. If empty, the response is the list.',
    },
    {
      kind: 'choice',
      name: 'paging.kind',
      label: 'Further pages',
      choices: [
        { value: 'none', label: 'None' },
        { value: 'page', label: 'By page number or offset' },
        { value: 'cursor', label: 'By a cursor in the response' },
        { value: 'link', label: 'By the Link header' },
      ],
    },
    {
      kind: 'text',
      name: 'paging.parameter',
      label: 'Parameter of the page',
      placeholder: 'page, or cursor',
      when: (values) => values['paging.kind'] === 'page' || values['paging.kind'] === 'cursor',
    },
    {
      kind: 'number',
      name: 'paging.first',
      label: 'First number',
      placeholder: '1',
      when: is('paging.kind', 'page'),
    },
    {
      kind: 'number',
      name: 'paging.step',
      label: 'Step',
      placeholder: '1',
      help: '1 for pages; the size of a page for offsets.',
      when: is('paging.kind', 'page'),
    },
    {
      kind: 'text',
      name: 'paging.next',
      label: 'Where the cursor is',
      placeholder: '/meta/next',
      help: 'A JSON Pointer into the response.',
      isRequired: true,
      when: is('paging.kind', 'cursor'),
    },
    certificates(),
  ],
  secrets: authSecrets,
}

export const scim: SourceInfo = {
  title: 'SCIM directory',
  description: 'People or groups of an identity provider that speaks SCIM 2.0.',
  settings: [
    {
      kind: 'text',
      name: 'url',
      label: 'Base URL',
      placeholder: 'https://idp.example.com/scim/v2',
      help: 'The URL before /Users.',
      isRequired: true,
    },
    ...authSettings(true),
    { kind: 'choice', name: 'resource', label: 'Reads', choices: optionsOf('Users', 'Groups') },
    {
      kind: 'text',
      name: 'filter',
      label: 'Filter',
      placeholder: 'active eq true',
      help: 'In the filter language of SCIM. If empty, everything is read.',
    },
    { kind: 'number', name: 'page_size', label: 'Entries per page', placeholder: '100', isAdvanced: true },
    certificates(),
  ],
  secrets: authSecrets,
}
