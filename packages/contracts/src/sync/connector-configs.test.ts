import { expect, test } from 'vitest'
import { wordsOf } from '../issue-words.ts'
import { publishedOpenApi } from '../published/published-openapi.ts'
import { connectorConfigSchemas } from './connector-configs.ts'
import { creatableConnectorTypes } from './connector.ts'

const published = JSON.stringify(publishedOpenApi('https://postern.example'))

test.each(creatableConnectorTypes)('the configuration of %s is in the OpenAPI document, with an example', (type) => {
  const schema = connectorConfigSchemas[type]
  const { id, examples } = schema.meta() ?? {}
  const shown: readonly unknown[] = Array.isArray(examples) ? examples : []
  expect(shown.length).toBeGreaterThan(0)
  for (const example of shown) expect(schema.safeParse(example)).toMatchObject({ success: true })
  expect(published).toContain(`{"$ref":"#/components/schemas/${id}"}`)
  expect(published).toContain(`"${id}":{`)
})

test.each([
  ['csv', { auth: { kind: 'token' } }, 'must be one of none, basic, bearer, header'],
  ['csv', { delimiter: ':' }, 'must be a comma, a semicolon, a tab or |'],
  ['csv', { url: 'ftp://x' }, 'such as https://'],
  ['http_json', { url: 'https://x', items: 'data' }, 'such as /data'],
  ['http_json', { url: 'https://x', paging: { kind: 'pages' } }, 'must be one of none, page, cursor, link'],
  ['sql', { engine: 'oracle' }, 'must be one of postgres, mariadb'],
  ['ldap', { host: 'ldaps://x' }, 'without a scheme'],
] as const)('a wrong configuration of %s is refused with the forms that it may have: %j', (type, config, words) => {
  const [issue] = connectorConfigSchemas[type].safeParse(config).error?.issues ?? []
  expect(issue && wordsOf(issue)).toContain(words)
})
