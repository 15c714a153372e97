import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { parseEnvironment, baseEnvironment } from '../../packages/service-kit/src/config.ts'

const deploy = join(import.meta.dirname, '..', '..', 'deploy')
const traced = ['evidence', 'findings', 'gateway', 'keys', 'sync', 'universe']

const read = (path: string): unknown => parse(readFileSync(join(deploy, path), 'utf8'), { merge: true })
const composeSchema = z.looseObject({
  services: z.record(
    z.string(),
    z.looseObject({ environment: z.record(z.string(), z.string()).default({}), networks: z.array(z.string()) }),
  ),
})

test('the compose file for traces gives every service access to a collector and removes nothing', () => {
  const base = composeSchema.parse(read('compose.yaml')).services
  const own = composeSchema.parse(read('compose.traces.yaml')).services
  expect(Object.keys(own).toSorted()).toEqual(traced)
  for (const [name, { environment, networks }] of Object.entries(own)) {
    const filled = Object.entries(environment).map(([key, value]) => [key, value.replace(/^\$\{\w+:-(.*)\}$/, '$1')])
    expect(parseEnvironment(Object.fromEntries(filled), baseEnvironment)).toMatchObject({
      POSTERN_OTLP_URL: 'http://collector:4318',
      POSTERN_TRACE_PERCENT: 100,
    })
    expect(networks).toEqual([...(base[name]?.networks ?? []), 'traces'])
  }
})

test('the Kubernetes component does the same', () => {
  const { patches } = z
    .looseObject({ patches: z.tuple([z.object({ target: z.looseObject({ name: z.string() }), patch: z.string() })]) })
    .parse(read('kubernetes/components/traces/kustomization.yaml'))
  expect(patches[0].target.name.split('|').toSorted()).toEqual(traced)
  const added = z
    .array(z.looseObject({ value: z.object({ name: z.string(), value: z.string() }) }))
    .parse(parse(patches[0].patch))
  const env = Object.fromEntries(added.map(({ value }) => [value.name, value.value]))
  const { POSTERN_OTLP_URL: url } = parseEnvironment(env, baseEnvironment)
  expect(url).toMatch(/:4318$/)
  const policy = JSON.stringify(read('kubernetes/components/traces/network-policy.yaml'))
  expect(policy).toContain('{"port":4318}')
})
