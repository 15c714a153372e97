import { hostname } from 'node:os'
import { z } from 'zod'
import { environment as console } from '../../services/console/src/config.ts'
import { environment as evidence } from '../../services/evidence/src/config.ts'
import { environment as findings } from '../../services/findings/src/config.ts'
import { environment as gateway } from '../../services/gateway/src/config.ts'
import { environment as keys } from '../../services/keys/src/config.ts'
import { environment as sync } from '../../services/sync/src/config.ts'
import { environment as universe } from '../../services/universe/src/config.ts'
import { baseEnvironment, edgeEnvironment } from '../../packages/service-kit/src/config.ts'
import { signInEnvironment } from '../../packages/sign-in/src/environment.ts'
import { renderTable } from './table.ts'

type Shape = Readonly<Record<string, z.ZodType>>

export interface Setting {
  readonly name: string
  readonly default: string
  readonly meaning: string
}

const parts: readonly (readonly [string, Shape])[] = [
  ['All processes', baseEnvironment],
  ['Gateway and console', { ...edgeEnvironment, ...signInEnvironment }],
  ['Gateway', gateway],
  ['Console', console],
  ['Keys', keys],
  ['Findings', findings],
  ['Universe', universe],
  ['Evidence', evidence],
  ['Sync', sync],
]

/** Lists settings by part; a shared one is with the first part. */
export function listSettings(): readonly { readonly part: string; readonly settings: readonly Setting[] }[] {
  const seen = new Set<z.ZodType>()
  return parts.map(([part, shape]) => {
    const own = Object.entries(shape).filter(([, schema]) => !seen.has(schema))
    for (const [, schema] of own) seen.add(schema)
    return { part, settings: own.map(([name, schema]) => describeSetting(name, schema)) }
  })
}

function describeSetting(name: string, schema: z.ZodType): Setting {
  const description = z.globalRegistry.get(schema)?.description
  if (description === undefined) throw new Error(`${name} has no description`)
  return { name, default: defaultOf(schema), meaning: `${description}${rangeOf(schema)}` }
}

/** Unless the default depends on the machine. */
function defaultOf(schema: z.ZodType): string {
  const parsed = schema.safeParse(undefined)
  if (!parsed.success) return 'required'
  const value: unknown = parsed.data
  if (value === hostname()) return 'host name'
  switch (typeof value) {
    case 'number':
      return value.toLocaleString('en')
    case 'boolean':
      return value ? '`on`' : '`off`'
    case 'string':
      return value === '' ? '' : `\`${value}\``
    default:
      return ''
  }
}

function rangeOf(schema: z.ZodType): string {
  const { minimum, maximum } = rangeSchema.parse(z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' }))
  return minimum === undefined || maximum === undefined
    ? ''
    : ` From ${minimum.toLocaleString('en')} to ${maximum.toLocaleString('en')}.`
}

const rangeSchema = z.looseObject({ minimum: z.number().optional(), maximum: z.number().optional() })

export function renderSettings(): string {
  const sections = listSettings().map(
    ({ part, settings }) =>
      `## ${part}\n\n${renderTable(
        ['setting', 'default', 'meaning'],
        settings.map((setting) => [`\`${setting.name}\``, setting.default, setting.meaning]),
      )}`,
  )
  return `# Settings

Environment variables of the processes. Each can also be read from the file that \`<NAME>_FILE\` names, which is how secrets are mounted. A process does
not start with an invalid setting, and names all of them in its log, without values. It warns of variables that begin with \`POSTERN_\` and that it does
not know. This file is generated from the code: \`npm run docs\`.

${sections.join('\n')}`
}
