import { describe, expect, test } from 'vitest'
import type { Connector } from '../../api/sync.ts'
import {
  type Draft,
  changeOf,
  configOf,
  creationOf,
  draftOf,
  faultsOf,
  newDraft,
  rebase,
  startValues,
} from './draft.ts'
import { httpJson } from './web-sources.ts'
import { newRule } from './rules.ts'
import { scheduleDraftOf, scheduleInWords, scheduleOf } from './schedule.ts'

const connector: Connector = {
  id: '01a1ff18-0000-7000-8000-000000000001',
  key: 'hr',
  name: 'People',
  type: 'http_json',
  dataset: 'people',
  hierarchy: null,
  config: { url: 'https://hr.example/people', auth: { kind: 'basic', username: 'reader' }, items: '/data' },
  secrets: { password: { set: true, updated_at: '2026-01-01T00:00:00.000Z' } },
  mapping: [
    { target: 'external_id', source: '/id' },
    { target: 'active', constant: true },
    { target: 'name', source: 'n', transforms: [{ kind: 'lower' }, { kind: 'map', values: { a: 'b' } }] },
    { target: 'title', source: 't', transforms: [{ kind: 'map', values: { Mgr: 'Manager' } }] },
  ],
  schedule: { cron: '30 2 * * 1-5', time_zone: 'Europe/Berlin' },
  missing_policy: 'flag',
  authoritative: true,
  safety: { max_deactivate_pct: 10, max_deactivate: 50, min_rows: 1, max_change_pct: 40 },
  state: 'active',
  consecutive_failures: 0,
  last_run_at: null,
  next_run_at: null,
  created_at: '2026-01-01T00:00:00.000Z',
  updated_at: '2026-01-01T00:00:00.000Z',
  version: 1,
}

function drafted(change: Partial<Draft> = {}): Draft {
  return { ...as({}), ...change }
}

/** The form of the connector, changed. */
function as(change: Partial<Connector>): Draft {
  const draft = draftOf({ ...connector, ...change }, 'UTC')
  if (draft === undefined) throw new Error('this type has a form')
  return draft
}

test('opening and saving a connector changes nothing, including settings that the form cannot show', () => {
  const { config, mapping, schedule, missing_policy, authoritative, safety, name } = connector
  expect(changeOf(drafted(), connector)).toEqual({
    name,
    config: { ...config, paging: { kind: 'none' } },
    mapping,
    schedule,
    missing_policy,
    authoritative,
    safety,
    secrets: {},
  })
})

test('a column whose name contains a comma survives the form, and can be replaced', () => {
  const before: Connector = { ...connector, type: 'csv', config: { columns: ['Name, first', 'id'] }, secrets: {} }
  const draft = draftOf(before, 'UTC') ?? drafted()
  expect(changeOf(draft, before).config).toMatchObject({ columns: ['Name, first', 'id'] })
  const typed = { ...draft, values: { ...draft.values, columns: 'id, name' } }
  expect(changeOf(typed, before).config).toMatchObject({ columns: ['id', 'name'] })
})

describe('a form whose connector has changed in the meantime', () => {
  const start = as({})

  test('keeps the input and loads all other current settings', () => {
    const now = as({
      name: 'People of today',
      config: { ...connector.config, items: '/rows' },
      mapping: connector.mapping.slice(1),
      schedule: { cron: '0 5 * * *', time_zone: 'UTC' },
      safety: { ...connector.safety, min_rows: 7 },
    })
    const typed: Draft = {
      ...start,
      values: { ...start.values, url: 'https://hr.example/v2' },
      secrets: { password: 'new' },
      safety: { ...start.safety, max_deactivate: '9' },
    }
    const { draft, changed, kept } = rebase(typed, start, now)
    expect(draft).toEqual({
      ...now,
      values: { ...now.values, url: 'https://hr.example/v2' },
      secrets: { password: 'new' },
      safety: { ...now.safety, max_deactivate: '9' },
    })
    expect([changed, kept]).toEqual([['Name', 'Source', 'Fields', 'When it runs', 'Safeguards'], []])
  })

  test('reports conflicts and keeps the input there', () => {
    const now = as({ name: 'Theirs', mapping: connector.mapping.slice(1), missing_policy: 'deactivate' })
    const typed: Draft = { ...start, name: 'Mine', rules: start.rules.slice(0, 1), missingPolicy: 'deactivate' }
    const { draft, changed, kept } = rebase(typed, start, now)
    expect(draft).toEqual({ ...now, name: 'Mine', rules: typed.rules })
    expect([changed, kept]).toEqual([
      ['Name', 'Fields'],
      ['Name', 'Fields'],
    ])
  })

  test('reports no change if the settings are equal', () => {
    expect(rebase(start, start, as({ state: 'paused' }))).toMatchObject({ changed: [], kept: [] })
  })
})

test('the audience and the resource of an OAuth client are omitted if they are empty', () => {
  const login = { 'auth.token_url': 'https://login.example/token', 'auth.client_id': 'postern' }
  const configWith = (more: Readonly<Record<string, string>>) => {
    const values = { url: 'https://hr.example/people', 'auth.kind': 'oauth_client_credentials', ...login, ...more }
    return creationOf({ ...newDraft('UTC'), type: 'http_json', values }).config
  }
  const named = configWith({ 'auth.audience': 'https://api.example', 'auth.resource': 'urn:api' })
  expect(named).toMatchObject({ auth: { audience: 'https://api.example', resource: 'urn:api' } })
  expect(Object.keys(Object(configWith({ 'auth.audience': '' })).auth)).not.toContain('audience')
  const labels = httpJson.settings.map(({ label }) => label)
  expect(labels).toEqual(expect.arrayContaining(['Audience', 'Resource']))
})

test('the authentication method of an OAuth client stays unchanged', () => {
  const login = { token_url: 'https://login.example/token', client_id: 'postern' }
  const auth = {
    kind: 'oauth_client_credentials',
    ...login,
    audience: 'https://api.example',
    resource: 'urn:api',
    client_authentication: 'basic',
  }
  const before = { ...connector, config: { url: 'https://hr.example/people', auth } }
  expect(changeOf(draftOf(before, 'UTC') ?? drafted(), before).config).toMatchObject({ auth })
})

describe('a secret', () => {
  test('without input stays, new ones are sent, and unneeded ones are removed', () => {
    const { values } = drafted()
    const bearer = { ...values, 'auth.kind': 'bearer' }
    expect(changeOf(drafted({ secrets: { password: 'new' } }), connector).secrets).toEqual({ password: 'new' })
    expect(changeOf(drafted({ values: bearer, secrets: { token: 't' } }), connector).secrets).toEqual({
      token: 't',
      password: null,
    })
  })

  test('of an earlier choice is not sent', () => {
    const draft = { ...newDraft('UTC'), secrets: { password: 'typed before it was changed' } }
    expect(creationOf(draft).secrets).toEqual({})
  })

  test('is required if it is not stored', () => {
    expect(faultsOf(drafted(), () => true)).toEqual({})
    expect(faultsOf(drafted(), () => false)).toEqual({ 'secrets.password': 'This is required' })
  })
})

test('the configuration contains only the current settings with their types', () => {
  const values = {
    ...startValues('csv'),
    url: 'https://files.example/a.csv',
    delimiter: '\t',
    columns: 'a, b,',
    ca: ' ',
  }
  expect(configOf('csv', values)).toEqual({ delimiter: '\t', columns: ['a', 'b'] })
  expect(configOf('csv', { ...values, from: 'url', short_rows: 'yes' })).toEqual({
    url: 'https://files.example/a.csv',
    auth: { kind: 'none' },
    delimiter: '\t',
    columns: ['a', 'b'],
    short_rows: true,
  })
  expect(configOf('sql', { ...startValues('sql'), host: 'db', port: '5433' })).toEqual({
    engine: 'postgres',
    host: 'db',
    port: 5433,
    encryption: 'tls',
  })
  // A schema is what PostgreSQL has within a database, and MariaDB has not.
  const typed = { ...startValues('sql'), schema: 'erp', view: 'units' }
  expect(configOf('sql', typed)).toMatchObject({ engine: 'postgres', schema: 'erp' })
  expect(configOf('sql', { ...typed, engine: 'mariadb' })).toEqual({
    engine: 'mariadb',
    view: 'units',
    encryption: 'tls',
  })
})

test('a connector for uploads has no schedule', () => {
  const draft = { ...newDraft('UTC'), schedule: scheduleDraftOf(connector.schedule, 'UTC') }
  expect(creationOf(draft).schedule).toBeNull()
  expect(creationOf({ ...draft, values: { ...draft.values, from: 'url' } }).schedule).toEqual(connector.schedule)
})

test('an empty mapping rule is not sent', () => {
  expect(faultsOf(drafted({ rules: [newRule()] }), () => true)).toEqual({
    'mapping.0.target': 'Choose a field',
    'mapping.0.source': 'Enter the source column or value',
  })
})

describe('a schedule', () => {
  test.each([
    ['5 * * * *', 'Every hour, 5 minutes past'],
    ['0 6 * * *', 'Every day at 06:00'],
    ['30 2 * * 1-5', 'Monday to Friday at 02:30'],
    ['0 12 * * 0', 'Every Sunday at 12:00'],
    ['15 3 28 * *', 'On day 28 of every month at 03:15'],
    ['0 6 31 * *', '0 6 31 * *'],
    ['*/10 8-18 * * *', '*/10 8-18 * * *'],
    ['0 6 1 * 1', '0 6 1 * 1'],
    ['0 25 * * *', '0 25 * * *'],
  ])('%s is shown unchanged and survives the form', (cron, words) => {
    const schedule = { cron, time_zone: 'Europe/Berlin' }
    expect(scheduleInWords(schedule)).toBe(words)
    expect(scheduleOf(scheduleDraftOf(schedule, 'UTC'))).toEqual(schedule)
  })
})
