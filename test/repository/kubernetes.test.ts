import { routeTable } from '@postern/contracts'
import { describe, expect, test } from 'vitest'
import { base, serviceNames, useKubernetes } from '../support/kubernetes-objects.ts'
import { kubernetesFaults } from '../support/kubernetes-schema.ts'
import { arrowsOf, drawnArrows } from '../support/manifests.ts'

const { configuredArrows, describeObjects } = useKubernetes()

describe('the objects of the base', () => {
  describeObjects(() => base)

  test('let a pod reach exactly what it is configured to reach', () => {
    expect(configuredArrows()).toEqual(expect.arrayContaining(['gateway > redis:6379', 'console > gateway:8080']))
    expect(arrowsOf(base, 'egress')).toEqual(configuredArrows())
  })

  test('let a pod be reached only by its clients, the ingress and the monitoring', () => {
    const outside = [
      'namespace:ingress > gateway:8080',
      'namespace:monitoring > gateway:9080',
      'namespace:ingress > console:8080',
      'namespace:monitoring > console:9080',
      ...serviceNames
        .filter((name) => name !== 'gateway' && name !== 'console')
        .map((name) => `namespace:monitoring > ${name}:8080`),
    ]
    expect(arrowsOf(base, 'ingress')).toEqual([...configuredArrows(), ...outside].toSorted())
  })

  test('let the gateway reach only services with routes', () => {
    const leading = new Set(routeTable.map(({ upstream }) => upstream).filter((name) => name !== 'gateway'))
    const arrows = [...leading].map((name) => `gateway > ${name}:8080`).toSorted()
    expect(arrows).toHaveLength(5)
    for (const direction of ['egress', 'ingress'] as const) {
      const found = arrowsOf(base, direction).filter((arrow) => /^gateway > [a-z]+:8080$/.test(arrow))
      expect(found, direction).toEqual(arrows)
    }
  })

  test('match the table in docs/architecture.md', () => {
    const ports: Readonly<Record<string, number>> = { redis: 6379, pgbouncer: 6432, postgres: 5432 }
    expect(arrowsOf(base, 'egress')).toEqual(
      drawnArrows()
        .map(([from, to]) => `${from} > ${to}:${ports[to] ?? 8080}`)
        .toSorted(),
    )
  })

  test('separate the edge from PostgreSQL', () => {
    expect(configuredArrows().filter((arrow) => /^(?:gateway|console) > (?:postgres|pgbouncer)/.test(arrow))).toEqual(
      [],
    )
  })
})

test('the schema check detects a wrong type, a wrong value and an unknown field', async () => {
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' } }
  const port = { name: 'http', port: 80 }
  expect(await kubernetesFaults({ ...service, spec: { ports: [port] } })).toEqual([])
  expect(await kubernetesFaults({ ...service, spec: { ports: [{ ...port, port: '80' }] } })).not.toEqual([])
  const route = { apiVersion: 'gateway.networking.k8s.io/v1', kind: 'HTTPRoute', metadata: { name: 'a' } }
  expect(await kubernetesFaults({ ...route, spec: { hostnames: ['a.example'] } })).toEqual([])
  expect(await kubernetesFaults({ ...route, spec: { rules: [{ timeouts: { request: 'an hour' } }] } })).not.toEqual([])
  expect(await kubernetesFaults({ ...service, spec: { prots: [port] } })).toEqual([
    '/spec/prots is not a field of IoK8sApiCoreV1Service',
    '/spec/prots/0/name is not a field of IoK8sApiCoreV1Service',
    '/spec/prots/0/port is not a field of IoK8sApiCoreV1Service',
  ])
})
