import { expect, test } from 'vitest'
import { snippetKinds, snippetOf } from './snippets.ts'

test.each(snippetKinds)('the program for %s asks for the key and calls the API', (kind) => {
  const snippet = snippetOf(kind, 'https://postern.example/base')
  expect(snippet).toContain('https://postern.example/base')
  expect(snippet).toContain('api/v1/whoami')
  expect(snippet).toMatch(/read -rs|getpass|-AsSecureString|& PosternKey/)
  expect(snippet).not.toContain('postern_')
})
