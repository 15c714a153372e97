import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { logCheckpointSchema } from '@postern/contracts'
import { type ExportReport, verifyExport } from '@postern/log-chain'
import { contradicted, usage } from '../failure.ts'
import { type CommandContext, type OutputOptions, printJson } from '../session.ts'

type KeySet = NonNullable<Parameters<typeof verifyExport>[2]>

/** `verify-log`: reads the three files and nothing else, so that it works without a network and without our word. */
export async function verifyLog(
  context: CommandContext,
  path: string,
  options: OutputOptions & { readonly checkpoints: string; readonly jwks: string },
): Promise<void> {
  const checkpoints = checkpointsOf(options.checkpoints, await read(options.checkpoints))
  // A chain alone can be written anew from its first entry on: without a checkpoint there is nothing to hold it against.
  if (checkpoints.length === 0) throw usage(`${options.checkpoints} holds no checkpoint`)
  const keys = keySetOf(await read(options.jwks))
  if (keys === undefined) throw usage(`${options.jwks} is no JWKS: an object with "keys", as the API answers it`)
  const report = await verifyExport(
    linesOf(path),
    checkpoints.map(({ jws }) => jws),
    keys,
  )
  const entries = report.faults.map(({ line, problem }) => ({ file: path, line, problem: entryFaults[problem] }))
  const faults = [
    ...entries,
    ...report.checkpoints.flatMap(({ outcome, checkpoint }, index) =>
      outcome === 'agrees'
        ? []
        : [
            {
              file: options.checkpoints,
              line: checkpoints[index]?.line ?? 0,
              problem: `${checkpointFaults[outcome]}${checkpoint === undefined ? '' : ` (entry ${checkpoint.position})`}`,
            },
          ],
    ),
  ]
  const signed = report.checkpoints.flatMap(({ outcome, checkpoint }) =>
    outcome === 'agrees' && checkpoint !== undefined ? [checkpoint.position] : [],
  )
  // Whoever can write to the database can chain entries anew: those behind the last checkpoint nobody has vouched for yet.
  const unsigned = report.entries - Math.max(0, ...signed)
  const counts = { entries: report.entries, unsigned, findings: report.findings, checkpoints: checkpoints.length }
  if (!report.isIntact) {
    const untold = Math.max(0, entries.length - maxTold) + report.moreFaults
    const line = [
      ...entries.slice(0, maxTold).map(sentenceOf),
      ...(untold === 0 ? [] : [`and ${untold} lines more of ${path}`]),
      ...faults.slice(entries.length).map(sentenceOf),
    ].join('; ')
    throw contradicted(line, { faults, more_faults: report.moreFaults, ...counts, root: report.root })
  }
  if (options.json) printJson(context, { is_intact: true, ...counts, root: report.root })
  else {
    const behind = unsigned === 0 ? '' : `; the last ${unsigned} are behind every checkpoint: chained, and not signed`
    context.print(
      `true: ${counts.entries} entries of ${counts.findings} findings, ${counts.checkpoints} checkpoints${behind}`,
    )
  }
}

/** Entries that the line for people names; the JSON has a hundred. */
const maxTold = 10

function sentenceOf({ file, line, problem }: { file: string; line: number; problem: string }): string {
  return `${file} line ${line}: ${problem}`
}

const entryFaults: Readonly<Record<ExportReport['faults'][number]['problem'], string>> = {
  form: 'is no entry of the log',
  content: 'the entry is not what was hashed',
  link: 'the entry does not continue the one before it',
  order: 'the entry is not in its place: one is missing, added or moved',
}

const checkpointFaults: Readonly<Record<Exclude<ExportReport['checkpoints'][number]['outcome'], 'agrees'>, string>> = {
  contradicts: 'the log up to here is another than the one that was signed',
  'beyond-export':
    'the export ends before this checkpoint: entries are missing, or it was made before the checkpoint was',
  'not-signed-by-these-keys': 'is no checkpoint that these keys have signed',
}

/** The form of a compact JWS (RFC 7515, section 7.1), whatever is in it. */
const jwsPattern = /^[\w-]+\.[\w-]+\.[\w-]*$/

/** One checkpoint a line: the JWS itself, or what the API answered with it. A file with one of these may have it indented. */
function checkpointsOf(path: string, text: string): { jws: string; line: number }[] {
  const only = jwsOf(text.trim())
  if (only !== undefined) return [{ jws: only, line: 1 }]
  return text.split('\n').flatMap((line, index) => {
    const trimmed = line.trim()
    if (trimmed === '') return []
    const jws = jwsOf(trimmed)
    if (jws === undefined) {
      throw usage(`${path} line ${index + 1} is no checkpoint: one a line is read, its JWS or what the API answered`)
    }
    return [{ jws, line: index + 1 }]
  })
}

function jwsOf(text: string): string | undefined {
  return jwsPattern.test(text) ? text : logCheckpointSchema.safeParse(parseJson(text)).data?.jws
}

function keySetOf(text: string): KeySet | undefined {
  const value = parseJson(text)
  return isKeySet(value) ? value : undefined
}

function isKeySet(value: unknown): value is KeySet {
  if (typeof value !== 'object' || value === null || !('keys' in value) || !Array.isArray(value.keys)) return false
  return value.keys.every((key: unknown) => typeof key === 'object' && key !== null && 'kty' in key)
}

/** The lines of a file, as NDJSON has them: `node:readline` also ends one at U+2028, which may stand inside of JSON. */
async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = ''
  try {
    for await (const chunk of createReadStream(path, { encoding: 'utf8' })) {
      const lines = `${rest}${chunk}`.split('\n')
      rest = lines.pop() ?? ''
      yield* lines
    }
  } catch (error) {
    throw unreadable(path, error)
  }
  if (rest !== '') yield rest
}

async function read(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch((error: unknown) => {
    throw unreadable(path, error)
  })
}

function unreadable(path: string, error: unknown) {
  return usage(`${path} cannot be read: ${error instanceof Error ? error.message : String(error)}`)
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
