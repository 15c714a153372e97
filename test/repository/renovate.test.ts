import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'

const root = join(import.meta.dirname, '..', '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

const filesSchema = z.object({ managerFilePatterns: z.array(z.string()).min(1) })
const configuration = z
  .looseObject({
    extends: z.array(z.string()),
    enabledManagers: z.array(z.string()),
    'docker-compose': filesSchema,
    kubernetes: filesSchema,
    customManagers: z.array(
      filesSchema.extend({
        customType: z.literal('regex'),
        description: z.string(),
        matchStrings: z.array(z.string()).min(1),
        datasourceTemplate: z.enum(['docker', 'npm', 'node-version']),
        depNameTemplate: z.string().optional(),
      }),
    ),
  })
  .parse(JSON.parse(read('renovate.json')))

/** Renovate writes a pattern between slashes. */
function matches(patterns: readonly string[], path: string): boolean {
  return patterns.some((pattern) => new RegExp(pattern.replace(/^\/|\/$/g, '')).test(path))
}

/** Name and version of everything that the regular expressions find in a file. */
function foundIn(path: string): (string | undefined)[][] {
  return configuration.customManagers
    .filter(({ managerFilePatterns }) => matches(managerFilePatterns, path))
    .flatMap(({ matchStrings, depNameTemplate }) =>
      matchStrings.flatMap((pattern) =>
        [...read(path).matchAll(new RegExp(pattern, 'g'))].map(({ groups }) => [
          groups?.['depName'] ?? depNameTemplate,
          groups?.['currentValue'],
        ]),
      ),
    )
}

test('Renovate updates the catalog, the images and the tools', () => {
  expect(configuration.enabledManagers).toEqual(expect.arrayContaining(['npm', 'dockerfile', 'kubernetes']))
  expect(matches(configuration.kubernetes.managerFilePatterns, 'deploy/kubernetes/base/gateway.yaml')).toBe(true)
  expect(matches(configuration['docker-compose'].managerFilePatterns, 'deploy/compose.yaml')).toBe(true)
})

test('each regular expression of Renovate matches its files', () => {
  expect(foundIn('deploy/compose.yaml').map(([name]) => name)).toEqual(expect.arrayContaining(['postgres']))
  expect(foundIn('deploy/compose.yaml')).toHaveLength(2)
  expect(foundIn('deploy/Dockerfile').map(([name]) => name)).toEqual(['node', 'pnpm'])
  const [[, pin] = []] = foundIn('package.json')
  expect(pin).toMatch(/^24\.\d+\.\d+$/)
})
