import { agentOpenApi, publishedOpenApi } from '@postern/contracts'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import spectral from '@stoplight/spectral-core'
import parsers from '@stoplight/spectral-parsers'
import rulesets from '@stoplight/spectral-rulesets'
import { describe, expect, test } from 'vitest'

const origin = 'https://postern.example'
const published = JSON.stringify(publishedOpenApi(origin))
const forAgents = JSON.stringify(agentOpenApi(publishedOpenApi(origin)))

/** The recommended rules, except for those that do not fit this document. */
const redoclyRules: Parameters<typeof createConfig>[0] = {
  extends: ['recommended'],
  rules: {
    // The document for agents describes all errors once, as `default`.
    'operation-4xx-response': 'off',
    // tus appends to `/evidence/uploads/{id}`, and a path without parameters comes first (OpenAPI 3.1, section 4.8.8).
    'no-ambiguous-paths': 'off',
    // By default these rules forbid other members in each part of a schema, which `if` and `then` cannot satisfy.
    'no-invalid-schema-examples': { severity: 'error', allowAdditionalProperties: true },
    'no-invalid-media-type-examples': { severity: 'error', allowAdditionalProperties: true },
  },
}

// The product does not know who operates an installation.
const spectralRules = new spectral.Ruleset({ extends: [rulesets.oas], rules: { 'info-contact': 'off' } })

async function lintByRedocly(source: string): Promise<string[]> {
  const config = await createConfig(redoclyRules)
  const problems = await lintFromString({ source, absoluteRef: 'openapi.json', config })
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)
}

async function lintBySpectral(source: string): Promise<string[]> {
  const linter = new spectral.Spectral()
  linter.setRuleset(spectralRules)
  const results = await linter.run(new spectral.Document(source, parsers.Json, 'openapi.json'))
  return results.map(({ code, path, message }) => `${code} ${path.join('/')}: ${message}`)
}

describe.each([
  ['the published OpenAPI document', published],
  ['the OpenAPI document for agents', forAgents],
])('%s', (_, source) => {
  test('has no error or warning of Redocly', async () => {
    expect(await lintByRedocly(source)).toEqual([])
  })

  test('has no error or warning of Spectral', async () => {
    expect(await lintBySpectral(source)).toEqual([])
  })
})

describe('an OpenAPI document with an undescribed operation, an undefined tag and an id twice (control)', () => {
  const faulty = forAgents
    .replace('"tags":["Findings"]', '"tags":["Other"]')
    .replace('"description":"Use this first', '"x-note":"Use this first')
    .replace('"operationId":"getFinding"', '"operationId":"listFindings"')

  test('has errors of Redocly', async () => {
    expect(await lintByRedocly(faulty)).toContainEqual(expect.stringMatching(/^operation-operationId-unique: /))
  })

  test('has warnings of Spectral', async () => {
    const codes = (await lintBySpectral(faulty)).map((each) => each.split(' ')[0])
    expect(codes.toSorted()).toEqual(['operation-description', 'operation-operationId-unique', 'operation-tag-defined'])
  })
})
