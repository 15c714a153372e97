import { describe, expect, test } from 'vitest'
import { changeDatabaseUrl, parseDatabaseUrl } from './database-url.ts'

describe('the URL of a PostgreSQL database', () => {
  test.each([
    ['mysql://me:secret@one/db', 'must be a URL that begins with postgres:// or postgresql://'],
    ['one:5432,two:5432', 'must be a URL that begins with postgres:// or postgresql://'],
    ['postgres://me:secret@one:5432,/db', 'must name each host as host or host:port'],
    ['postgres://me:secret@one,,two/db', 'must name each host as host or host:port'],
    ['postgres://me:secret@one:5432;two:5432/db', 'must name each host as host or host:port'],
    ['postgres://me:secret@one:70000,two/db', 'must name each host as host or host:port'],
    ['postgres://me:secret@/db?host=one,,two', 'must name each host as host or host:port'],
    ['postgres://me:secret@/db?host=one,two,three&port=1,2', 'must have one port for all hosts, or one for each'],
    ['postgres://me:secret@one,two/db?target_session_attrs=standby', 'because Postern writes to the database'],
    ['postgres://me:secret@one,two/db?target_session_attrs=read-only', 'because Postern writes to the database'],
    ['postgres://me:secret@one,two/db?target_session_attrs=prefer-standby', 'because Postern writes to the database'],
    ['postgres://me:secret@one/db?target_session_attrs=standby', 'because Postern writes to the database'],
    ['postgres://me:secret@one,two/db?target_session_attrs=', 'because Postern writes to the database'],
    ['postgres://me:secret@one,two/db?target_session_attrs=Primary', 'because Postern writes to the database'],
  ])('%s is rejected with the reason and without the password', (text, message) => {
    expect(() => parseDatabaseUrl(text)).toThrow(message)
    expect(() => parseDatabaseUrl(text)).not.toThrow('secret')
  })

  test.each([
    'postgres://me:p%40ss@one/db',
    'postgresql://me:p@ss@one:5433/db?sslmode=verify-full',
    'postgres://me@[::1]:5432/db',
    'postgresql:///db?host=/var/run/postgresql',
    'postgres://one/db?target_session_attrs=any',
  ])('%s names one server, whose state is not checked', (text) => {
    expect(parseDatabaseUrl(text)).toEqual({ servers: [text], requires: 'anything' })
  })

  test('names several servers, each with the login, the database and the parameters', () => {
    const url = 'postgresql://me:p%2C@one:5432,two,[::1]:5433/db?sslmode=verify-full&target_session_attrs=read-write'
    const after = '/db?sslmode=verify-full&target_session_attrs=read-write'
    expect(parseDatabaseUrl(url)).toEqual({
      servers: ['one:5432', 'two', '[::1]:5433'].map((host) => `postgresql://me:p%2C@${host}${after}`),
      requires: 'read-write',
    })
  })

  test('names several servers by parameters too', () => {
    expect(parseDatabaseUrl('postgresql://me:p@/db?host=one,::1&port=5432,5433&sslmode=disable').servers).toEqual([
      'postgresql://me:p@one:5432/db?sslmode=disable',
      'postgresql://me:p@[::1]:5433/db?sslmode=disable',
    ])
    expect(parseDatabaseUrl('postgresql:///db?user=me&host=one,two&port=5433').servers).toEqual([
      'postgresql://one:5433/db?user=me',
      'postgresql://two:5433/db?user=me',
    ])
  })

  test.each([
    ['', 'primary'],
    ['?target_session_attrs=any', 'primary'],
    ['?target_session_attrs=primary', 'primary'],
    ['?target_session_attrs=read-write', 'read-write'],
  ])('with several hosts and %j leads to a server that is %s', (query, requires) => {
    expect(parseDatabaseUrl(`postgres://me@one,two/db${query}`).requires).toBe(requires)
  })

  test('keeps its hosts if another part changes', () => {
    const text = 'postgres://me:p@one:5432,two:5432/db?target_session_attrs=read-write'
    const changed = changeDatabaseUrl(text, (url) => {
      url.username = 'other'
      url.password = 'a@b,c'
      url.pathname = '/x%2Fy'
    })
    expect(changed).toBe('postgres://other:a%40b,c@one:5432,two:5432/x%2Fy?target_session_attrs=read-write')
    expect(parseDatabaseUrl(changed).servers).toHaveLength(2)
  })
})
