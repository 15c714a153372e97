import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeTestFolder } from '@postern/local-stack/testing'
import { beforeAll, describe, expect, test } from 'vitest'
import { readSignInSettings } from '../src/sign-in/settings.ts'

let env: Record<string, string>

beforeAll(async () => {
  const secret = join(await makeTestFolder('sign-in'), 'secret')
  await writeFile(secret, 'a secret\n')
  env = {
    POSTERN_PORT: '8190',
    POSTERN_CONSOLE_URL: 'http://127.0.0.1:8090',
    POSTERN_OIDC_CLIENT_ID: 'postern-console',
    POSTERN_OIDC_CLIENT_SECRET_FILE: secret,
    POSTERN_DEMO_FILE: 'demo.json',
  }
})

describe('the development provider', () => {
  test.each([
    ['NODE_ENV', 'production'],
    ['POSTERN_HOST', '0.0.0.0'],
    ['POSTERN_HOST', '::'],
    ['POSTERN_OIDC_ISSUER', 'https://sign-in.example'],
    ['POSTERN_OIDC_ISSUER', 'http://10.0.0.1:8190'],
    ['POSTERN_OIDC_ISSUER', 'http://127.0.0.1.example:8190'],
    ['POSTERN_CONSOLE_URL', 'https://console.example'],
  ])('does not start with %s=%s', (name, value) => {
    expect(() => readSignInSettings({ ...env, [name]: value })).toThrow('This sign-in is for development')
  })

  test('starts on the loopback address', () => {
    expect(readSignInSettings(env)).toMatchObject({ issuer: 'http://127.0.0.1:8190', clientSecret: 'a secret' })
  })
})
