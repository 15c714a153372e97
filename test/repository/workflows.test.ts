import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'

const root = join(import.meta.dirname, '..', '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

const manifest = z
  .object({ scripts: z.record(z.string(), z.string()), config: z.object({ node: z.object({ pin: z.string() }) }) })
  .parse(JSON.parse(read('package.json')))

const stepSchema = z.strictObject({
  name: z.string().optional(),
  id: z.string().optional(),
  if: z.string().optional(),
  uses: z.string().optional(),
  run: z.string().optional(),
  with: z.record(z.string(), z.unknown()).optional(),
  env: z.record(z.string(), z.string()).optional(),
})
const permissionsSchema = z.record(z.string(), z.enum(['read', 'write']))
const jobSchema = z.strictObject({
  needs: z.string().optional(),
  uses: z.string().optional(),
  'runs-on': z.literal('ubuntu-24.04').optional(),
  'timeout-minutes': z.int().optional(),
  permissions: permissionsSchema.optional(),
  strategy: z.looseObject({ matrix: z.record(z.string(), z.array(z.string())) }).optional(),
  steps: z.array(stepSchema).min(1).optional(),
})
const workflowSchema = z.strictObject({
  name: z.string(),
  on: z.record(z.string(), z.unknown()),
  permissions: permissionsSchema,
  concurrency: z.strictObject({ group: z.string(), 'cancel-in-progress': z.boolean() }).optional(),
  jobs: z.record(z.string(), jobSchema),
})

const paths = globSync('.github/workflows/*', { cwd: root }).toSorted()
const workflows = paths.map((path) => ({ path, text: read(path), workflow: workflowSchema.parse(parse(read(path))) }))

describe.each(workflows)('$path', ({ text, workflow }) => {
  const jobs = Object.values(workflow.jobs)
  const steps = jobs.flatMap((job) => job.steps ?? [])

  test('may only read unless a job says otherwise', () => {
    expect(workflow.permissions).toEqual({ contents: 'read' })
  })

  test('ends every job in time', () => {
    expect(jobs.filter((job) => job.uses === undefined && job['timeout-minutes'] === undefined)).toEqual([])
  })

  test('pins every action to a commit, with its release beside it', () => {
    const actions = steps.flatMap(({ uses }) => (uses === undefined ? [] : [uses]))
    expect(actions.filter((action) => !/^[\w-]+\/[\w/-]+@[0-9a-f]{40}$/.test(action))).toEqual([])
    for (const action of actions) expect(text).toMatch(new RegExp(`${action} # v\\d+\\.\\d+\\.\\d+\n`))
  })

  test('calls workflows and commands that exist', () => {
    const called = jobs.flatMap(({ uses }) => (uses === undefined ? [] : [uses]))
    expect(called.filter((path) => !existsSync(join(root, path)))).toEqual([])
    const commands = jobs.flatMap((job) =>
      (job.steps ?? []).flatMap(({ run = '' }) =>
        (job.strategy?.matrix['command'] ?? ['']).flatMap((command) =>
          [...run.replace('${{ matrix.command }}', command).matchAll(/npm (?:run )?(?:-s )?(?<name>[\w:]+)/g)].map(
            ({ groups }) => groups?.['name'] ?? '',
          ),
        ),
      ),
    )
    expect(commands.filter((name) => !Object.hasOwn(manifest.scripts, name))).toEqual([])
  })

  test('puts no event text into shell commands', () => {
    expect(steps.filter(({ run = '' }) => /\$\{\{\s*(?:github\.event|github\.head_ref|inputs)/.test(run))).toEqual([])
  })
})

test('continuous integration runs the two commands of the README and CI', () => {
  const commands = workflows.flatMap(({ workflow }) =>
    Object.values(workflow.jobs).flatMap((job) => (job.steps ?? []).map(({ run }) => run)),
  )
  expect(commands).toEqual(expect.arrayContaining(['npm run check', '.ci/run']))
  expect(existsSync(join(root, '.ci/run'))).toBe(true)
})

test('version managers and workflows use the Node.js of package.json', () => {
  expect(read('.nvmrc').trim()).toBe(manifest.config.node.pin)
})

test.each(['bug', 'feature'])('the issue form for a %s asks for what is needed to act', (name) => {
  const form = z
    .strictObject({
      name: z.string(),
      description: z.string(),
      labels: z.array(z.string()),
      body: z.array(
        z.strictObject({
          type: z.enum(['markdown', 'textarea', 'input', 'dropdown']),
          id: z.string().optional(),
          attributes: z.looseObject({}),
          validations: z.strictObject({ required: z.boolean() }).optional(),
        }),
      ),
    })
    .parse(parse(read(`.github/ISSUE_TEMPLATE/${name}.yaml`)))
  expect(form.body.some(({ validations }) => validations?.required === true)).toBe(true)
})

test('every path in CODEOWNERS exists', () => {
  const owned = read('.github/CODEOWNERS')
    .split('\n')
    .flatMap((line) =>
      line === '' || line.startsWith('#') || line.startsWith('*') ? [] : line.split(/\s+/).slice(0, 1),
    )
  expect(owned.length).toBeGreaterThan(5)
  expect(owned.filter((path) => !existsSync(join(root, path)))).toEqual([])
})
